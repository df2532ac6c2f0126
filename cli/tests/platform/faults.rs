//! Faulty replicas: the effect is bounded, is reported, and ends with the fault.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{GrpcClient, HttpClient, RequestError};
use crate::fixture::Fixture;
use crate::load::{Load, runtime};
use crate::manifest::Service;
use crate::shared_dir::{Fault, SharedDir, signal};
use crate::weir::wait_until;

const REPLICAS: u32 = 4;

/// Concurrent requests of each replica.
const CREDITS: u32 = 2;

/// Time of an inference in milliseconds, long enough that most of the time every client has a request in flight.
const SERVICE_MS: u32 = 100;

/// Deadline of every request, many times what a request takes even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(5);

fn four(shared: &SharedDir) -> Service {
    let service = Service::new("one").shared_dir(shared).service_ms(SERVICE_MS);
    service.replicas(REPLICAS, REPLICAS).concurrency(CREDITS)
}

/// Waits until all credits are in use at the same time, which shows that none was lost.
fn all_capacity_is_back(fixture: &Fixture) {
    fixture.wait_for_revision("all credits in use", 1, |revision| {
        revision["ready"] == REPLICAS && revision["in_flight"] == REPLICAS * CREDITS
    });
}

#[test]
fn a_frozen_replica_loses_only_its_own_requests_and_recovers() {
    let fixture = Fixture::ready(REPLICAS.into(), four);
    let load = Load::within(DEADLINE, fixture.weir.serving, 6, 2);
    all_capacity_is_back(&fixture);
    let frozen = fixture.shared.serving()[0];
    let began = Instant::now();
    signal(frozen, Signal::STOP);
    fixture.wait_for_revision("that it is not ready", 1, |revision| revision["ready"] == REPLICAS - 1);
    let lasted = began.elapsed();
    let before = load.answered();
    wait_until("the others", || load.answered() > before + 50, || fixture.weir.output());
    signal(frozen, Signal::CONT);
    all_capacity_is_back(&fixture);
    let tally = load.end();
    // Each credit of the frozen replica loses one request per deadline, and the one that was in flight.
    let most = u64::from(CREDITS) * (lasted.as_secs() / DEADLINE.as_secs() + 2);
    assert!(tally.failed.len() as u64 <= most, "{lasted:?}: {tally:?}");
    for failure in &tally.failed {
        let places = [" for replica echo-", " in the queue of revision default/echo-"];
        let where_it_waited =
            failure.contains("deadline exceeded: waited ") && places.iter().any(|place| failure.contains(place));
        let code = failure.contains(": 504 ") || failure.contains(": 4 ");
        assert!(where_it_waited && code, "{failure}");
    }
}

/// Starts a platform with one replica that takes one request and does not answer it.
fn hanging() -> Fixture {
    let fixture = Fixture::ready(1, |shared| {
        let service = Service::new("one").shared_dir(shared).replicas(1, 1);
        service.concurrency(1)
    });
    fixture.shared.inject(fixture.shared.serving()[0], Fault::Hang);
    fixture
}

/// Checks that the message names the place where the request waited.
fn assert_deadline(text: &str, place: &str) {
    let is_reported = text.contains("deadline exceeded: waited ") && text.contains(place);
    assert!(is_reported, "{text}");
}

const AT_REPLICA: &str = "s for replica echo-predictor-00001-0";
const IN_QUEUE: &str = "s in the queue of revision default/echo-predictor-00001, 0 requests were ahead";

#[test]
fn a_missed_deadline_names_the_place_of_the_wait() {
    let fixture = hanging();
    let address = fixture.weir.serving;
    let (mut http, mut second) = (HttpClient::new(address), HttpClient::new(address));
    let both = async {
        let behind = async {
            wait_until_in_flight(&fixture).await;
            second.infer(&[("weir-timeout", "300")]).await
        };
        tokio::join!(http.infer(&[("weir-timeout", "3000")]), behind)
    };
    let (first, behind) = runtime().block_on(both);
    let (first, behind) = (first.unwrap(), behind.unwrap());
    assert_eq!((first.status, behind.status), (504, 504));
    assert_deadline(&first.text, AT_REPLICA);
    assert_deadline(&behind.text, IN_QUEUE);
    fixture.wait_for_revision("no request left", 1, |revision| revision["in_flight"] == 0);
}

#[test]
fn a_deadline_over_grpc_is_reported_and_frees_its_credit() {
    let fixture = hanging();
    let mut grpc = GrpcClient::new(fixture.weir.serving);
    let runtime = runtime();
    let late = runtime.block_on(grpc.infer(&[("grpc-timeout", "700m")]));
    let late = late.unwrap();
    assert_eq!(late.status, 4, "{late:?}");
    assert_deadline(&late.text, AT_REPLICA);
    fixture.shared.clear_faults();
    let healed = runtime.block_on(grpc.infer(&[("grpc-timeout", "60S")]));
    assert_eq!(healed.unwrap().status, 200);
    fixture.wait_for_revision("no request left", 1, |revision| revision["in_flight"] == 0);
}

async fn wait_until_in_flight(fixture: &Fixture) {
    while fixture.shared.requests().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn an_invalid_response_is_retried_and_is_an_error_from_all_replicas() {
    let fixture = Fixture::ready(REPLICAS.into(), four);
    let load = Load::start(fixture.weir.serving, 6, 2);
    all_capacity_is_back(&fixture);
    let replicas = fixture.shared.serving();
    fixture.shared.inject(replicas[0], Fault::Garbage);
    let before = load.answered();
    wait_until("the others", || load.answered() > before + 100, || fixture.weir.output());
    fixture.shared.clear_faults();
    all_capacity_is_back(&fixture);
    let tally = load.end();
    assert_eq!(tally.failed, [""; 0], "{}", fixture.weir.output());
    assert!(fixture.metric("weir_gateway_replays_total") > 0.0);
    for replica in replicas {
        fixture.shared.inject(replica, Fault::Garbage);
    }
    let runtime = runtime();
    let http = runtime.block_on(HttpClient::new(fixture.weir.serving).infer(&[])).unwrap();
    let grpc = runtime.block_on(GrpcClient::new(fixture.weir.serving).infer(&[])).unwrap();
    // A response that is not HTTP may belong to work that was done, so the gateway retries the request only once. A
    // gRPC call that breaks off has no response, and is retried more often.
    let places = [
        (500, "returned no valid response: tried 2 times, last replica echo-"),
        (14, "did not answer: tried 4 times, last replica echo-"),
    ];
    for (answer, (status, message)) in [http, grpc].into_iter().zip(places) {
        let message = format!("revision default/echo-predictor-00001 {message}");
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text.contains(&message), "{answer:?}");
    }
}

#[test]
fn a_truncated_response_is_an_error_and_costs_no_credit() {
    let fixture = Fixture::ready(1, |shared| Service::new("one").shared_dir(shared).replicas(1, 1).concurrency(1));
    let address = fixture.weir.serving;
    let (mut http, mut grpc) = (HttpClient::new(address), GrpcClient::new(address));
    let runtime = runtime();
    fixture.shared.inject(fixture.shared.serving()[0], Fault::BreakOff);
    for _ in 0..3 {
        let broken = runtime.block_on(http.infer(&[]));
        assert!(matches!(broken, Err(RequestError::ConnectionClosed(_))), "{broken:?}");
        let broken = runtime.block_on(grpc.infer(&[])).unwrap();
        assert_eq!(broken.status, 14, "{broken:?}");
        assert!(broken.text.starts_with("the replica broke off its response"), "{broken:?}");
    }
    fixture.shared.clear_faults();
    // Without its only credit the request would wait forever.
    let answer = runtime.block_on(http.infer(&[("weir-timeout", "30000")])).unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    fixture.wait_for_revision("no request left", 1, |revision| revision["in_flight"] == 0);
}

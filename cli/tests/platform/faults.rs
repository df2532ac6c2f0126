//! Replicas that misbehave: the effect is bounded, it is told what it is, and it ends with the fault.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::client::{Grpc, Http, Lost};
use crate::field::{Fault, Field, signal};
use crate::load::{Load, runtime};
use crate::manifest::Service;
use crate::stage::Stage;
use crate::weir::until;

const REPLICAS: u32 = 4;

/// Requests at once of each.
const CREDITS: u32 = 2;

/// Time of an inference: long enough that mostly all clients have one under way.
const SERVICE_MS: u32 = 100;

/// The deadline of every request of the load: many times what one takes, even on a busy machine.
const DEADLINE: Duration = Duration::from_secs(5);

fn four(field: &Field) -> Service {
    let service = Service::new("one").field(field).service_ms(SERVICE_MS);
    service.replicas(REPLICAS, REPLICAS).concurrency(CREDITS)
}

/// Every credit is used at once: none was lost.
fn all_capacity_is_back(stage: &Stage) {
    stage.see("all credits in use", 1, |revision| {
        revision["ready"] == REPLICAS && revision["in_flight"] == REPLICAS * CREDITS
    });
}

#[test]
fn a_frozen_replica_costs_what_it_held_and_comes_back() {
    let stage = Stage::ready(REPLICAS.into(), four);
    let load = Load::within(DEADLINE, stage.weir.serving, 6, 2);
    all_capacity_is_back(&stage);
    let frozen = stage.field.serving()[0];
    let began = Instant::now();
    signal(frozen, Signal::STOP);
    stage.see("that it is not ready", 1, |revision| {
        revision["ready"] == REPLICAS - 1
    });
    let lasted = began.elapsed();
    let before = load.answered();
    until(
        "the others",
        || load.answered() > before + 50,
        || stage.weir.output(),
    );
    signal(frozen, Signal::CONT);
    all_capacity_is_back(&stage);
    let tally = load.end();
    // Each of its credits loses a request each time that a deadline passes, and the one it had.
    let most = u64::from(CREDITS) * (lasted.as_secs() / DEADLINE.as_secs() + 2);
    assert!(tally.failed.len() as u64 <= most, "{lasted:?}: {tally:?}");
    for failure in &tally.failed {
        let places = [
            " for replica echo-",
            " in the queue of revision default/echo-",
        ];
        let where_it_waited = failure.contains("deadline exceeded: waited ")
            && places.iter().any(|place| failure.contains(place));
        let code = failure.contains(": 504 ") || failure.contains(": 4 ");
        assert!(where_it_waited && code, "{failure}");
    }
}

/// One replica that takes one request and does not answer it.
fn hanging() -> Stage {
    let stage = Stage::ready(1, |field| {
        let service = Service::new("one").field(field).replicas(1, 1);
        service.concurrency(1)
    });
    stage.field.afflict(stage.field.serving()[0], Fault::Hang);
    stage
}

/// Says that the time went at the replica, or in the queue.
fn is_told(text: &str, place: &str) {
    let told = text.contains("deadline exceeded: waited ") && text.contains(place);
    assert!(told, "{text}");
}

const AT_REPLICA: &str = "s for replica echo-predictor-00001-0";
const IN_QUEUE: &str =
    "s in the queue of revision default/echo-predictor-00001, 0 requests were ahead";

#[test]
fn a_deadline_says_where_the_time_went() {
    let stage = hanging();
    let address = stage.weir.serving;
    let (mut http, mut second) = (Http::new(address), Http::new(address));
    let both = async {
        let behind = async {
            until_in_flight(&stage).await;
            second.infer(&[("weir-timeout", "300")]).await
        };
        tokio::join!(http.infer(&[("weir-timeout", "3000")]), behind)
    };
    let (first, behind) = runtime().block_on(both);
    let (first, behind) = (first.unwrap(), behind.unwrap());
    assert_eq!((first.status, behind.status), (504, 504));
    is_told(&first.text, AT_REPLICA);
    is_told(&behind.text, IN_QUEUE);
    stage.see("no request left", 1, |revision| revision["in_flight"] == 0);
}

#[test]
fn a_deadline_over_grpc_is_told_and_its_place_is_free_again() {
    let stage = hanging();
    let mut grpc = Grpc::new(stage.weir.serving);
    let runtime = runtime();
    let late = runtime.block_on(grpc.infer(&[("grpc-timeout", "700m")]));
    let late = late.unwrap();
    assert_eq!(late.status, 4, "{late:?}");
    is_told(&late.text, AT_REPLICA);
    stage.field.heal();
    let healed = runtime.block_on(grpc.infer(&[("grpc-timeout", "60S")]));
    assert_eq!(healed.unwrap().status, 200);
    stage.see("no request left", 1, |revision| revision["in_flight"] == 0);
}

async fn until_in_flight(stage: &Stage) {
    while stage.field.begun().is_empty() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn garbage_of_one_is_answered_by_another_and_of_all_is_told() {
    let stage = Stage::ready(REPLICAS.into(), four);
    let load = Load::start(stage.weir.serving, 6, 2);
    all_capacity_is_back(&stage);
    let replicas = stage.field.serving();
    stage.field.afflict(replicas[0], Fault::Garbage);
    let before = load.answered();
    until(
        "the others",
        || load.answered() > before + 100,
        || stage.weir.output(),
    );
    stage.field.heal();
    all_capacity_is_back(&stage);
    let tally = load.end();
    assert_eq!(tally.failed, [""; 0], "{}", stage.weir.output());
    assert!(stage.metric("weir_gateway_replays_total") > 0.0);
    for replica in replicas {
        stage.field.afflict(replica, Fault::Garbage);
    }
    let runtime = runtime();
    let http = runtime
        .block_on(Http::new(stage.weir.serving).infer(&[]))
        .unwrap();
    let grpc = runtime
        .block_on(Grpc::new(stage.weir.serving).infer(&[]))
        .unwrap();
    // What is no HTTP may be the answer to work that was done; a call that breaks off has none.
    let places = [
        (
            500,
            "gave no valid answer: tried 2 times, last replica echo-",
        ),
        (14, "did not answer: tried 4 times, last replica echo-"),
    ];
    for (answer, (status, told)) in [http, grpc].into_iter().zip(places) {
        let told = format!("revision default/echo-predictor-00001 {told}");
        assert_eq!(answer.status, status, "{answer:?}");
        assert!(answer.text.contains(&told), "{answer:?}");
    }
}

#[test]
fn an_answer_that_breaks_off_is_no_answer_and_costs_no_credit() {
    let stage = Stage::ready(1, |field| {
        Service::new("one")
            .field(field)
            .replicas(1, 1)
            .concurrency(1)
    });
    let address = stage.weir.serving;
    let (mut http, mut grpc) = (Http::new(address), Grpc::new(address));
    let runtime = runtime();
    stage
        .field
        .afflict(stage.field.serving()[0], Fault::BreakOff);
    for _ in 0..3 {
        let broken = runtime.block_on(http.infer(&[]));
        assert!(matches!(broken, Err(Lost::Cut(_))), "{broken:?}");
        let broken = runtime.block_on(grpc.infer(&[])).unwrap();
        assert_eq!(broken.status, 14, "{broken:?}");
        assert!(
            broken.text.starts_with("the replica broke off its answer"),
            "{broken:?}"
        );
    }
    stage.field.heal();
    // The only credit is there, or this would wait for ever.
    let answer = runtime
        .block_on(http.infer(&[("weir-timeout", "30000")]))
        .unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    stage.see("no request left", 1, |revision| revision["in_flight"] == 0);
}

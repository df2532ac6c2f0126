//! Many requests to a service at zero replicas.

use std::fs;
use std::ops::Range;

use tokio::task::JoinSet;

use crate::client::{Answer, GrpcClient, RequestError};
use crate::fixture::Fixture;
use crate::load::runtime;
use crate::manifest::Service;
use crate::shared_dir::SharedDir;
use crate::weir::wait_until;

const REQUESTS: usize = 500;

/// Number of requests that are sent at once where the order is checked. Within a group the order is random, because
/// each request is queued by its own task.
const GROUP: usize = 100;

/// Memory that all requests may use, in KiB: 128 KiB each is four times what a connection's buffers hold.
const MEMORY_KIB: u64 = REQUESTS as u64 * 128;

/// Starts a platform whose service was ready once and is now at zero. The test does not wait for it to be ready,
/// because it is ready for only a second, which a busy machine can miss.
fn asleep(of: impl FnOnce(Service, &SharedDir) -> Service) -> Fixture {
    let fixture = Fixture::new(|shared| {
        let service = Service::new("one").shared_dir(shared).replicas(0, 1);
        of(service.concurrency(1), shared)
    });
    let sleeps = || fixture.weir.output().contains("asleep until a request arrives");
    wait_until("asleep", sleeps, || fixture.weir.output());
    fixture
}

#[test]
fn five_hundred_requests_at_once_wake_the_service_once_and_are_answered() {
    let fixture = asleep(|service, _| service);
    let before = resident_kib(&fixture);
    // The output of `weir up` is not used, because it may show a replica as ready that it never showed as loading.
    let starts = || fixture.shared.serving().len();
    assert_eq!(starts(), 1);
    let runtime = runtime();
    let mut asked = JoinSet::new();
    let mut grpc = GrpcClient::new(fixture.weir.serving);
    runtime.block_on(ask(&mut grpc, 0..REQUESTS, &mut asked));
    runtime.block_on(all_answered(asked));
    assert_eq!(starts(), 2, "{}", fixture.weir.output());
    assert_eq!(fixture.shared.requests().len(), REQUESTS);
    let grown = resident_kib(&fixture).saturating_sub(before);
    assert!(grown < MEMORY_KIB, "{grown} KiB");
}

#[test]
fn requests_are_served_in_order_of_arrival() {
    let gate = |shared: &SharedDir| shared.path().join("gate");
    let fixture = asleep(|service, shared| service.gate(&gate(shared)));
    let runtime = runtime();
    let mut asked = JoinSet::new();
    let mut grpc = GrpcClient::new(fixture.weir.serving);
    for first in (0..REQUESTS).step_by(GROUP) {
        runtime.block_on(ask(&mut grpc, first..first + GROUP, &mut asked));
        fixture.wait_for_revision("all of them waiting but one", 1, |revision| {
            revision["in_flight"] == 1 && revision["queued"] == first + GROUP - 1
        });
    }
    fs::write(gate(&fixture.shared), "").unwrap();
    runtime.block_on(all_answered(asked));
    let groups = fixture.shared.requests().into_iter();
    let groups: Vec<usize> = groups.map(|id| id.parse::<usize>().unwrap() / GROUP).collect();
    assert!(groups.len() == REQUESTS && groups.is_sorted(), "{groups:?}");
}

/// Sends the requests over one connection, so that they arrive at once.
async fn ask(grpc: &mut GrpcClient, ids: Range<usize>, asked: &mut JoinSet<Result<Answer, RequestError>>) {
    for id in ids {
        let sent = grpc.begin(&[("x-request-id", &id.to_string())]).await;
        let sent = sent.unwrap();
        asked.spawn(async move { GrpcClient::finish(sent.await).await });
    }
}

async fn all_answered(mut asked: JoinSet<Result<Answer, RequestError>>) {
    while let Some(answer) = asked.join_next().await {
        let answer = answer.unwrap().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// Returns the peak memory of `weir` in KiB.
fn resident_kib(fixture: &Fixture) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", fixture.weir.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

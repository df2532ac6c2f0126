//! Many requests meet a service that sleeps.

use std::fs;
use std::ops::Range;

use tokio::task::JoinSet;

use crate::client::{Answer, Grpc, Lost};
use crate::field::Field;
use crate::load::runtime;
use crate::manifest::Service;
use crate::stage::Stage;
use crate::weir::until;

const REQUESTS: usize = 500;

/// Requests that are sent at once where their order is looked at: within a group it is left to chance, as
/// each is given its place by a task of its own.
const GROUP: usize = 100;

/// What requests may cost together: 128 KiB each is four times what a connection's buffers hold.
const MEMORY_KIB: u64 = REQUESTS as u64 * 128;

/// A service that was up once, and sleeps. Not waited for while it is up: that is a second, which a busy machine
/// lets pass.
fn asleep(of: impl FnOnce(Service, &Field) -> Service) -> Stage {
    let stage = Stage::new(|field| {
        let service = Service::new("one").field(field).replicas(0, 1);
        of(service.concurrency(1), field)
    });
    let sleeps = || {
        stage
            .weir
            .output()
            .contains("asleep until a request arrives")
    };
    until("asleep", sleeps, || stage.weir.output());
    stage
}

#[test]
fn five_hundred_at_once_wake_it_once_and_are_answered() {
    let stage = asleep(|service, _| service);
    let before = resident_kib(&stage);
    let loads = || stage.weir.output().matches("00001  loading").count();
    assert_eq!(loads(), 1);
    let runtime = runtime();
    let mut asked = JoinSet::new();
    let mut grpc = Grpc::new(stage.weir.serving);
    runtime.block_on(ask(&mut grpc, 0..REQUESTS, &mut asked));
    runtime.block_on(all_answered(asked));
    assert_eq!(loads(), 2, "{}", stage.weir.output());
    assert_eq!(stage.field.begun().len(), REQUESTS);
    let grown = resident_kib(&stage).saturating_sub(before);
    assert!(grown < MEMORY_KIB, "{grown} KiB");
}

#[test]
fn who_came_first_is_served_first() {
    let gate = |field: &Field| field.path().join("gate");
    let stage = asleep(|service, field| service.gate(&gate(field)));
    let runtime = runtime();
    let mut asked = JoinSet::new();
    let mut grpc = Grpc::new(stage.weir.serving);
    for first in (0..REQUESTS).step_by(GROUP) {
        runtime.block_on(ask(&mut grpc, first..first + GROUP, &mut asked));
        stage.see("all of them waiting but one", 1, |revision| {
            revision["in_flight"] == 1 && revision["queued"] == first + GROUP - 1
        });
    }
    fs::write(gate(&stage.field), "").unwrap();
    runtime.block_on(all_answered(asked));
    let groups = stage.field.begun().into_iter();
    let groups: Vec<usize> = groups
        .map(|id| id.parse::<usize>().unwrap() / GROUP)
        .collect();
    assert!(groups.len() == REQUESTS && groups.is_sorted(), "{groups:?}");
}

/// All over one connection, so that they come at once.
async fn ask(grpc: &mut Grpc, ids: Range<usize>, asked: &mut JoinSet<Result<Answer, Lost>>) {
    for id in ids {
        let sent = grpc.begin(&[("x-request-id", &id.to_string())]).await;
        let sent = sent.unwrap();
        asked.spawn(async move { Grpc::finish(sent.await).await });
    }
}

async fn all_answered(mut asked: JoinSet<Result<Answer, Lost>>) {
    while let Some(answer) = asked.join_next().await {
        let answer = answer.unwrap().unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// The most memory that `weir` ever had.
fn resident_kib(stage: &Stage) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", stage.weir.id())).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse()
        .unwrap()
}

//! Many requests meet a service that sleeps.

use std::fs;

use tokio::task::JoinSet;

use crate::client::Grpc;
use crate::load::runtime;
use crate::manifest::Service;
use crate::stage::Stage;

const REQUESTS: usize = 500;

/// By how many places a request may be answered off its turn, in the mean: it is given its place by a task
/// of its own, and tasks that become ready at once run in any order. Without order it would be a third of all.
const OFF_ITS_TURN: usize = REQUESTS / 20;

/// What requests may cost together: 128 KiB each is four times what a connection's buffers hold.
const MEMORY_KIB: u64 = REQUESTS as u64 * 128;

#[test]
fn five_hundred_at_once_wake_it_once_and_are_answered_in_order() {
    let stage = Stage::ready(1, |field| {
        Service::new("one")
            .field(field)
            .replicas(0, 1)
            .concurrency(1)
    });
    let awake = ["ready", "wanted"];
    stage.see("asleep", 1, |revision| {
        awake.iter().all(|key| revision[*key] == 0)
    });
    let before = resident_kib(&stage);
    let loads = || stage.weir.output().matches("00001  loading").count();
    assert_eq!(loads(), 1);
    runtime().block_on(ask_all(&stage));
    assert_eq!(loads(), 2, "{}", stage.weir.output());
    let order = stage.field.begun();
    let order: Vec<usize> = order.iter().map(|id| id.parse().unwrap()).collect();
    assert_eq!(order.len(), REQUESTS);
    let off: usize = order
        .iter()
        .enumerate()
        .map(|(at, id)| at.abs_diff(*id))
        .sum();
    assert!(off <= REQUESTS * OFF_ITS_TURN, "{order:?}");
    let grown = resident_kib(&stage).saturating_sub(before);
    assert!(grown < MEMORY_KIB, "{grown} KiB");
}

/// All over one connection, so that they come in order.
async fn ask_all(stage: &Stage) {
    let mut asking = JoinSet::new();
    let mut grpc = Grpc::new(stage.weir.serving);
    for id in 0..REQUESTS {
        let sent = grpc.begin(&[("x-request-id", &id.to_string())]).await;
        let sent = sent.unwrap();
        asking.spawn(async move { Grpc::finish(sent.await).await });
    }
    while let Some(answer) = asking.join_next().await {
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

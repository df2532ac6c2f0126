//! Tests of queued requests that are dispatched by time, without another event.

use super::*;
use crate::queue::testing::{credit, credit_for, empty_queue, queue_with, set_replicas};

/// Longest wait for a credit that must come.
const SOON: Duration = Duration::from_secs(10);

/// Waits until this many requests are queued.
async fn until_queued(queue: &RevisionQueue, count: usize) {
    let wait = async {
        while queue.state.lock().dispatcher.queued().requests != count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap();
}

#[tokio::test]
async fn the_limit_of_a_replica_that_finds_requests_waiting_grows_without_an_answer() {
    let queue = empty_queue();
    let queued: Vec<_> = (0..4)
        .map(|_| {
            let queue = Arc::clone(&queue);
            tokio::spawn(async move { credit(&queue).await })
        })
        .collect();
    until_queued(&queue, 4).await;
    set_replicas(&queue, &[None]);
    let mut held = Vec::new();
    for credit in queued {
        held.push(tokio::time::timeout(SOON, credit).await.unwrap().unwrap());
    }
}

#[tokio::test]
async fn a_credit_that_a_resting_stream_lends_is_kept_for_its_client_only_for_some_seconds() {
    let queue = queue_with(&[Some(2)]);
    let mut stream = credit_for(&queue, "b").await;
    let _held = credit_for(&queue, "a").await;
    let mut next = Box::pin(credit_for(&queue, "a"));
    tokio::select! {
        _ = &mut next => panic!("both credits are in use"),
        () = until_queued(&queue, 1) => stream.rest(),
    }
    drop(tokio::time::timeout(SOON, next).await.unwrap());
}

#[tokio::test]
async fn a_replica_is_readmitted_long_before_another_ones_limit_grows() {
    let queue = queue_with(&[None, None]);
    for _ in 0..2 {
        let slow = credit(&queue).await;
        let at = slow.since + Duration::from_secs(10);
        slow.answered(Verdict::Succeeded, at);
    }
    let (_busy, ejected) = (credit(&queue).await, credit(&queue).await);
    let mut next = Box::pin(credit(&queue));
    tokio::select! {
        _ = &mut next => panic!("both credits are in use"),
        () = until_queued(&queue, 1) => {}
    }
    // The task of the timer runs, and finds that the limits grow much later.
    tokio::task::yield_now().await;
    ejected.settle(Outcome::Declined, Verdict::Open);
    drop(tokio::time::timeout(SOON, next).await.unwrap());
}

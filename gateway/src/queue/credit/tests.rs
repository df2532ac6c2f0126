//! Tests of the end of a credit whose request was given up.

use super::*;
use crate::queue::testing::{credit, queue_with};

/// Returns a queue with a replica for one request at a time, whose answers took `took`.
async fn queue(took: Duration) -> Arc<RevisionQueue> {
    let queue = queue_with(&[Some(1)]);
    let credit = credit(&queue).await;
    let at = credit.since + took;
    credit.answered(Verdict::Succeeded, at);
    queue
}

fn in_flight(queue: &RevisionQueue) -> u32 {
    queue.state.lock().in_flight
}

#[tokio::test]
async fn a_request_that_is_given_up_keeps_its_credit_until_the_replica_is_probably_free() {
    let queue = queue(Duration::from_secs(10)).await;
    let mut given_up = credit(&queue).await;
    given_up.begin_attempt();
    let gone = now();
    drop(given_up);
    assert_eq!(in_flight(&queue), 1);
    let next = credit(&queue).await;
    assert!(now().saturating_duration_since(gone) >= Duration::from_millis(100));
    drop(next);
}

#[tokio::test]
async fn a_credit_without_work_at_the_replica_is_given_back_at_once() {
    let queue = queue(Duration::from_secs(10)).await;
    drop(credit(&queue).await);
    assert_eq!(in_flight(&queue), 0);
    let mut answered = credit(&queue).await;
    answered.begin_attempt();
    answered.end_attempt();
    drop(answered);
    assert_eq!(in_flight(&queue), 0);
    let mut resting = credit(&queue).await;
    resting.begin_attempt();
    resting.rest();
    drop(resting);
    assert_eq!(in_flight(&queue), 0);
}

#[tokio::test]
async fn a_slow_upload_that_is_complete_keeps_its_credit_when_it_is_given_up() {
    let queue = queue(Duration::from_secs(10)).await;
    let mut uploaded = credit(&queue).await;
    uploaded.begin_attempt();
    uploaded.rest();
    uploaded.resume();
    drop(uploaded);
    assert_eq!(in_flight(&queue), 1);
}

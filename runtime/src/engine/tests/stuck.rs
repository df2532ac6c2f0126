//! Tests of batches that never end.

#![expect(clippy::disallowed_methods, reason = "the age of a batch depends on the caller's clock")]

use std::time::{Duration, Instant};

use crate::backend::Device;
use crate::engine::{BatchLimit, StuckBatch};
use crate::error::{Refused, ServeError};

use super::fake::{Blocker, Fake, Running, add_one};

const LIMIT: Duration = Duration::from_secs(60);

impl Running {
    /// Checks the engine's batches twice, at a time `seconds` from now.
    fn look_after(&self, seconds: u64) -> Vec<StuckBatch> {
        let then = Instant::now() + Duration::from_secs(seconds);
        let watch = self.engine.watch();
        watch.look(then, BatchLimit::Measured);
        watch.look(then, BatchLimit::Measured)
    }
}

/// An engine with this many instances, whose runs wait for the blocker.
fn blocked(instances: usize) -> (Running, Blocker) {
    let (blocker, pass) = Blocker::new();
    let fake = Fake::new(move |batch| {
        // Only rows below zero are blocked.
        if super::fake::inputs(batch).iter().any(|x| *x < 0) {
            pass(batch.rows);
        }
        add_one(batch)
    });
    let running = fake.start(|spec| spec.devices = vec![Device::Cpu; instances]);
    (running, blocker)
}

fn is_given_up(answer: Result<Vec<i32>, ServeError>) -> bool {
    matches!(answer, Err(ServeError::Model(text)) if text.contains("(--max-batch-seconds)"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_over_its_limit_is_stuck_and_fails_the_requests_that_wait_for_it() {
    let (running, blocker) = blocked(1);
    let inside = running.ask(-1);
    assert_eq!(blocker.entered(), 1);
    let waiting = running.ask(1);
    running.queued(1).await;
    assert!(running.look_after(50).is_empty());
    assert!(running.engine.watch().age(Instant::now() + LIMIT) >= LIMIT);

    let stuck = running.look_after(70);
    assert_eq!((stuck.len(), stuck[0].rows, stuck[0].limit), (1, 1, LIMIT));
    assert!(stuck[0].age > LIMIT);
    assert!(is_given_up(inside.await.unwrap()));
    let stalled = ServeError::Stalled("m".to_owned());
    assert_eq!(waiting.await.unwrap(), Err(stalled.clone()));
    assert_eq!(running.ask(1).await.unwrap(), Err(stalled.clone()));
    assert_eq!(stalled.refusal(), Some(Refused::Stuck));

    // Once the batch has ended, requests are answered again.
    blocker.open();
    running.until(|running| running.look_after(0).is_empty()).await;
    assert_eq!(running.ask(1).await.unwrap(), Ok(vec![2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_is_stuck_only_after_two_checks() {
    let (running, blocker) = blocked(1);
    let inside = running.ask(-1);
    assert_eq!(blocker.entered(), 1);
    let (now, watch) = (Instant::now(), running.engine.watch());
    for _ in 0..3 {
        assert!(watch.look(now + 2 * LIMIT, BatchLimit::Measured).is_empty());
        assert!(watch.look(now, BatchLimit::Measured).is_empty());
    }
    blocker.open();
    assert_eq!(inside.await.unwrap(), Ok(vec![0]));
}

#[tokio::test(flavor = "multi_thread")]
async fn other_instances_continue() {
    let (running, blocker) = blocked(2);
    let inside = running.ask(-1);
    assert_eq!(blocker.entered(), 1);
    assert_eq!(running.look_after(70).len(), 1);
    assert!(is_given_up(inside.await.unwrap()));
    for x in 0..10 {
        assert_eq!(running.ask(x).await.unwrap(), Ok(vec![x + 1]));
    }
    blocker.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stuck_batch_does_not_delay_the_end() {
    let (running, blocker) = blocked(1);
    let inside = running.ask(-1);
    assert_eq!(blocker.entered(), 1);
    let mut drain = Box::pin(running.engine.drain());
    assert!(futures_util::poll!(&mut drain).is_pending());
    assert_eq!(running.look_after(70).len(), 1);
    drain.await;
    assert!(is_given_up(inside.await.unwrap()));
    blocker.open();
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_limit_no_batch_is_stuck() {
    let (running, blocker) = blocked(1);
    let inside = running.ask(-1);
    assert_eq!(blocker.entered(), 1);
    let later = Instant::now() + 1_000 * LIMIT;
    for _ in 0..3 {
        let watch = running.engine.watch();
        assert!(watch.look(later, BatchLimit::Unlimited).is_empty());
    }
    blocker.open();
    assert_eq!(inside.await.unwrap(), Ok(vec![0]));
}

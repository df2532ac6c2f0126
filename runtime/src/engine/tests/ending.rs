//! Tests of requests that end before their answer, and of engines that end before their requests.

#![expect(clippy::disallowed_methods, reason = "a deadline is a time of the caller's clock")]

use std::time::{Duration, Instant};

use weir_protocol::Parameter;

use crate::error::{Refused, ServeError};
use crate::statistics::Reason;

use super::fake::{Blocker, Fake, Running, add_one, request};

/// An engine whose runs wait for the blocker, with one request in its first run.
async fn held() -> (Running, Blocker, tokio::task::JoinHandle<Result<Vec<i32>, ServeError>>) {
    let (blocker, fake) = Fake::blocking();
    let running = fake.start(|_| {});
    let first = running.ask(0);
    assert_eq!(blocker.entered(), 1);
    (running, blocker, first)
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_answers_queued_requests_and_refuses_new_ones() {
    let (running, blocker, first) = held().await;
    let asked: Vec<_> = (1..=20).map(|x| running.ask(x)).collect();
    running.queued(20).await;
    let mut drain = Box::pin(running.engine.drain());
    assert!(futures_util::poll!(&mut drain).is_pending());
    let late = running.infer(request(&[99])).await.map(drop);
    assert_eq!(late, Err(ServeError::Draining));
    (0..4).for_each(|_| blocker.open());
    drain.await;
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    for (x, ask) in (1..).zip(asked) {
        assert_eq!(ask.await.unwrap(), Ok(vec![x + 1]));
    }
    assert_eq!(running.engine.snapshot().success.count, 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_request_is_not_run() {
    let (running, blocker, first) = held().await;
    let leaving = running.ask(1);
    running.queued(1).await;
    leaving.abort();
    // Dropping the request counts it as cancelled.
    assert!(leaving.await.unwrap_err().is_cancelled());
    running.queued(0).await;
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    running.engine.drain().await;
    assert_eq!(*running.runs.lock(), [1]);
    let canceled = Reason::ALL.iter().position(|reason| *reason == Reason::Canceled);
    assert_eq!(running.engine.snapshot().failures[canceled.unwrap()], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_the_wait_while_the_instance_is_busy() {
    let (running, blocker, first) = held().await;
    let deadline = Instant::now() + Duration::from_millis(30);
    let late = running.infer_by(request(&[1]), Some(deadline)).await;
    match late.map(drop) {
        Err(ServeError::DeadlineExceeded { waited_ms }) => assert!(waited_ms >= 20, "{waited_ms}"),
        other => panic!("{other:?}"),
    }
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    running.engine.drain().await;
    assert_eq!(*running.runs.lock(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_with_a_very_short_timeout_is_marked_as_the_clients_fault() {
    let (running, blocker, first) = held().await;
    let mut hasty = request(&[1]);
    let timeout = Parameter::Uint(2000);
    hasty.parameters.insert("timeout".to_owned(), timeout);
    let late = running.infer(hasty).await.map(drop).unwrap_err();
    let own = Some(Duration::from_millis(2));
    assert_eq!(late, ServeError::QueueTimeout { own });
    assert_eq!(late.refusal().map(Refused::label), Some("3"));
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_that_has_passed_is_refused_at_once() {
    let running = Fake::new(add_one).start(|_| {});
    let passed = running.infer_by(request(&[1]), Some(Instant::now())).await;
    let error = ServeError::DeadlineExceeded { waited_ms: 0 };
    assert_eq!(passed.map(drop), Err(error));
    assert!(running.runs.lock().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_is_dropped_ends_its_threads() {
    let (running, blocker, first) = held().await;
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    let runs = std::sync::Arc::downgrade(&running.runs);
    drop(running);
    // The instance held the last reference.
    let gone = async {
        while runs.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

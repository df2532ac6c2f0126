//! Tests of requests that share a batch, and of the order of their answers.

use crate::backend::Device;
use crate::error::ServeError;
use weir_batcher::Ordering;

use super::fake::{Blocker, Fake, add_one, inputs, request, values};

#[tokio::test(flavor = "multi_thread")]
async fn a_single_request_runs_at_once() {
    let running = Fake::new(add_one).start(|_| {});
    let got = running.infer(request(&[41])).await.unwrap();
    assert_eq!(values(&got), [42]);
    assert_eq!(got.cost.batch_rows, 1);
    assert_eq!(got.response.version, "1");
    assert_eq!(*running.runs.lock(), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_arrive_while_the_instance_is_busy_form_one_batch() {
    let (blocker, fake) = Fake::blocking();
    let running = fake.start(|_| {});
    let first = running.ask(0);
    assert_eq!(blocker.entered(), 1);
    let others: Vec<_> = (1..=8).map(|x| running.ask(x)).collect();
    running.queued(8).await;
    blocker.open();
    assert_eq!(blocker.entered(), 8);
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    for (x, other) in (1..).zip(others) {
        assert_eq!(other.await.unwrap(), Ok(vec![x + 1]));
    }
    let snapshot = running.engine.snapshot();
    assert_eq!((snapshot.execution_count, snapshot.inference_count), (2, 9));
    assert_eq!(snapshot.batches.keys().copied().collect::<Vec<_>>(), [1, 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_returned_to_their_own_request() {
    let (blocker, fake) = Fake::blocking();
    let running = fake.start(|_| {});
    let first = running.ask(0);
    blocker.entered();
    let three = tokio::spawn({
        let running = running.clone();
        async move { running.infer(request(&[10, 20, 30])).await.unwrap() }
    });
    running.queued(1).await;
    let two = tokio::spawn({
        let running = running.clone();
        async move { running.infer(request(&[40, 50])).await.unwrap() }
    });
    running.queued(2).await;
    blocker.open();
    assert_eq!(blocker.entered(), 5);
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    assert_eq!(values(&three.await.unwrap()), [11, 21, 31]);
    assert_eq!(values(&two.await.unwrap()), [41, 51]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_refuses() {
    let (blocker, fake) = Fake::blocking();
    let running = fake.start(|spec| spec.policy.max_queued = 1);
    let first = running.ask(0);
    blocker.entered();
    let second = running.ask(1);
    running.queued(1).await;
    let third = running.infer(request(&[2])).await.map(drop);
    assert_eq!(third, Err(ServeError::QueueFull));
    blocker.open();
    blocker.entered();
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    assert_eq!(second.await.unwrap(), Ok(vec![2]));
}

#[tokio::test(flavor = "multi_thread")]
async fn two_instances_keep_the_order_of_admission() {
    let (blocker, pass) = Blocker::new();
    let running = Fake::new(move |batch| {
        // Only the first request is blocked.
        if inputs(batch) == [0] {
            pass(batch.rows);
        }
        add_one(batch)
    })
    .start(|spec| {
        spec.policy.ordering = Ordering::Admission;
        spec.devices = vec![Device::Cpu; 2];
    });
    let first = running.ask(0);
    blocker.entered();
    let second = running.ask(1);
    running.until(|running| running.engine.snapshot().success.count == 1).await;
    // The second request has run, and waits for the response to the first.
    assert!(!second.is_finished());
    blocker.open();
    assert_eq!(first.await.unwrap(), Ok(vec![1]));
    assert_eq!(second.await.unwrap(), Ok(vec![2]));
}

//! Weaknesses of Triton's dynamic batcher, one by one, with a test that Weir's batcher does not have them. The tests
//! assert which items run together, never how fast.

#[path = "support/queue.rs"]
mod queue;

use std::sync::Arc;

use queue::{Queue, Rows, at, millis};
use weir_batcher::{Batcher, Bound, Policy, QueuePolicy, SubmitError, Terms, TimeoutAction, form_at};

/// Weakness 1: a batcher thread between callers and devices, woken for each request. Here the device's own thread forms
/// the batch: sixteen submissions are one pull, without any other thread in the process.
#[tokio::test]
async fn w01_no_thread_stands_between_callers_and_devices() {
    let batcher: Batcher<Rows, usize> = Batcher::new(Policy::new(16), Arc::new(()));
    let submit = |_| batcher.submit(Rows { shape: "a", rows: 1 }, Terms::default());
    let tickets: Vec<_> = (0..16).map(submit).collect();
    let mut worker = batcher.worker();
    let work = worker.pull().expect("is due");
    assert_eq!(work.count(), 16);
    work.answer((0..16).collect());
    for (i, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(ticket.expect("has room").await, Ok(i));
    }
}

/// Weakness 2: batches are formed before a device can take them, two per instance, and stay small while more items
/// arrive. Here the batch contains everything that arrived until the device was free, and the next batch everything
/// since.
#[test]
fn w02_batches_are_bound_when_a_device_takes_them() {
    let mut queue = Queue::new(Policy::new(8));
    queue.assembler.devices(2);
    queue.ones(2, 0);
    let busy = [queue.start(0), queue.start(0)];
    assert_eq!(busy.map(|batch| batch.map_or(0, |batch| batch.weight)), [2, 0]);
    for ms in 1..=8 {
        queue.one(ms);
    }
    assert_eq!(queue.sizes(9), [8]);
}

/// Weakness 3: any queue policy disables preparing batches ahead. Here the items that run together, and the time at
/// which a batch ahead is formed, do not depend on the queue policy.
#[test]
fn w03_queue_policies_do_not_cost_pipelining() {
    let mut strict = Policy::new(4);
    strict.default_queue_policy =
        QueuePolicy { default_timeout: Some(millis(1_000)), max_queue_size: 100, ..QueuePolicy::default() };
    let sizes = [Policy::new(4), strict].map(|policy| {
        let mut queue = Queue::new(policy);
        let mut sizes = Vec::new();
        for round in 0..10 {
            queue.ones(1 + round % 5, round as u64 * 10);
            sizes.extend(queue.run(round as u64 * 10).map(|batch| batch.weight));
        }
        sizes
    });
    assert_eq!(sizes[0], sizes[1]);
    // The next batch of a device that is busy until 50 ms is formed 10 ms earlier, because preparing it takes 10 ms,
    // whatever the policy.
    assert_eq!(form_at(at(0), at(50), millis(10)), at(40));
}

/// Weakness 4: a counter of idle instances drifts, and lowers the throughput. Here there is no such counter: after ten
/// thousand rounds with timeouts and cancellations, batches are as large as in the first round, and an idle queue
/// predicts no wait.
#[test]
fn w04_nothing_drifts() {
    let mut policy = Policy::new(4);
    policy.default_queue_policy.default_timeout = Some(millis(5));
    let mut queue = Queue::new(policy);
    queue.assembler.devices(2);
    queue.assembler.record(&"a", 4, millis(2));
    for round in 0..10_000 {
        let ms = round * 10;
        queue.ones(4, ms);
        let gone = queue.one(ms);
        assert!(queue.assembler.cancel(gone).is_some());
        assert_eq!(queue.run(ms).map(|batch| batch.weight), Some(4));
        queue.one(ms);
        assert_eq!(queue.expired(ms + 5), [SubmitError::Expired { own: None }]);
    }
    assert_eq!(queue.assembler.predicted_wait(0, at(100_000)), millis(0));
    assert_eq!(queue.order(100_000), []);
}

/// Weakness 5: timeouts are checked every 500 ms while instances are busy, and late requests may still run. Here an
/// item expires at its exact time, without any device pulling, and never runs afterwards.
#[test]
fn w05_timeouts_take_effect_when_they_pass() {
    let mut queue = Queue::new(Policy::new(1));
    let timed = Terms { timeout: Some(millis(7)), ..Terms::default() };
    let id = queue.with(timed, 0).expect("has room");
    assert_eq!(queue.assembler.expires_at(id), Some(at(7)));
    assert_eq!(queue.expired(6), []);
    assert_eq!(queue.expired(7), [SubmitError::Expired { own: Some(millis(7)) }]);
    assert!(queue.with(timed, 10).is_ok());
    assert!(queue.run(17).is_none(), "it is over when the device is free");
}

/// Weakness 6: a lone request on an idle device waits for the whole delay that batching needs. Here batches form while
/// the device is busy: a lone request runs at once, and many requests run together.
#[test]
fn w06_batching_needs_no_delay() {
    let mut queue = Queue::new(Policy::new(32));
    queue.one(0);
    assert_eq!(queue.start(0).map(|batch| batch.weight), Some(1));
    for ms in 1..=10 {
        queue.ones(2, ms);
    }
    assert_eq!(queue.sizes(10), [20]);
}

/// Weakness 7: a change of shape ends a batch, so mixed traffic is not batched. Here each shape has its own queue, and
/// a full batch does not wait behind another shape's delay.
#[test]
fn w07_shapes_do_not_split_each_others_batches() {
    let mut queue = Queue::new(Policy::new(8));
    for _ in 0..8 {
        queue.shape("a", 0);
        queue.shape("b", 0);
    }
    assert_eq!(queue.sizes(0), [8, 8]);

    let mut queue = Queue::new(Policy { delay: millis(100), ..Policy::new(2) });
    queue.shape("a", 0);
    queue.shape("b", 1);
    queue.shape("b", 1);
    let batch = queue.run(1).expect("b is full");
    assert_eq!((batch.group, batch.weight), ("b", 2));
    assert!(queue.run(99).is_none());
    assert_eq!(queue.run(100).map(|batch| batch.group), Some("a"));
}

/// Weakness 8: queues are unbounded by default, and bounded only in requests, whatever their cost. Here there is always
/// a bound. A request that would be late is refused at once, by the work queued before it and not by its number.
#[test]
fn w08_admission_counts_time() {
    let bounded = Policy { max_queued: 3, ..Policy::new(8) };
    let mut queue = Queue::new(bounded);
    queue.ones(3, 0);
    assert_eq!(queue.with(Terms::default(), 0), Err(SubmitError::QueueFull));
    assert!(Policy::new(8).max_queued < usize::MAX);

    let timed = Terms { timeout: Some(millis(50)), ..Terms::default() };
    for (row, outcome) in [(1, true), (10, false)] {
        let mut queue = Queue::new(Policy::new(1));
        queue.assembler.record(&"a", 1, millis(row));
        queue.ones(10, 0);
        assert_eq!(queue.with(timed, 0).is_ok(), outcome, "{row} ms a row");
    }
    let impatient = Policy { max_predicted_wait: Some(millis(20)), ..Policy::new(1) };
    let mut queue = Queue::new(impatient);
    queue.assembler.record(&"a", 1, millis(7));
    queue.ones(3, 0);
    let (predicted, allowed) = (millis(21), millis(20));
    let error = |allowed, bound| SubmitError::PredictedWait { predicted, allowed, bound };
    let refused = queue.with(Terms::default(), 0);
    assert_eq!(refused, Err(error(allowed, Bound::Policy)));
    // A caller that could wait longer than the policy allows has time to retry elsewhere; a caller whose own limit is
    // exceeded has not.
    for (timeout, allowed, bound) in [
        (millis(50), millis(20), Bound::Policy),
        (millis(20), millis(20), Bound::Item),
        (millis(5), millis(5), Bound::Item),
    ] {
        let terms = Terms { timeout: Some(timeout), ..Terms::default() };
        assert_eq!(queue.with(terms, 0), Err(error(allowed, bound)));
    }
}

/// Weakness 9: urgent requests starve the others. Here a less urgent item runs, even if urgent items never stop
/// arriving, as soon as they arrive later than it by more than the ageing time.
#[test]
fn w09_no_level_starves() {
    let policy = Policy { levels: 2, default_level: 1, ageing: millis(50), ..Policy::new(1) };
    let mut queue = Queue::new(policy);
    let patient = Terms { priority: 2, ..Terms::default() };
    let patient = queue.with(patient, 0).expect("has room");
    let mut ran_at = None;
    for ms in 1..1_000 {
        queue.one(ms);
        let batch = queue.run(ms).expect("there is work");
        if batch.members.iter().any(|member| member.id == patient) {
            ran_at = ran_at.or(Some(ms));
        }
    }
    // At 50 ms, the urgent item of that time has the same effective arrival, and the less urgent item was queued first.
    assert_eq!(ran_at, Some(50));
}

/// Weakness 10: a failed merge leaves the next batch marked as running, so that it cannot grow. Here an item that does
/// not fit stays in the queue like any other, and its batch can grow.
#[test]
fn w10_a_batch_of_items_that_did_not_fit_can_still_grow() {
    let mut queue = Queue::new(Policy::new(8));
    queue.rows(6, 0);
    queue.rows(4, 0);
    assert_eq!(queue.run(0).map(|batch| batch.weight), Some(6));
    queue.rows(4, 1);
    assert_eq!(queue.run(1).map(|batch| batch.weight), Some(8));
}

/// Weakness 11: the largest batch is assumed to be the best. Here measured times decide. With a model that runs 36 rows
/// a second in batches of eight and 25 in batches of thirty-two, thirty-two queued rows run as four batches of eight.
/// The large size is tried again now and then, and is chosen when it is faster.
#[test]
fn w11_the_batch_size_is_chosen() {
    let mut queue = Queue::new(Policy::new(32));
    queue.assembler.record(&"a", 1, millis(60));
    queue.assembler.record(&"a", 8, millis(222));
    queue.assembler.record(&"a", 32, millis(1_280));
    queue.ones(32, 0);
    assert_eq!(queue.sizes(0), [8, 8, 8, 8]);
    let mut tried = 0;
    for _ in 0..300 {
        queue.ones(32, 0);
        tried += queue.sizes(0).iter().filter(|size| **size == 32).count();
    }
    assert!((1..=6).contains(&tried), "{tried} of 1200 batches tried the large size");

    queue.assembler.record(&"b", 8, millis(100));
    queue.assembler.record(&"b", 32, millis(200));
    for _ in 0..32 {
        queue.shape("b", 0);
    }
    assert_eq!(queue.sizes(0), [32]);
}

/// Weakness 12: without dynamic batching there are no limits, timeouts or priorities. Here a model that does not batch
/// has the same queue as any other.
#[test]
fn w12_models_that_do_not_batch_have_limits_too() {
    let mut policy = Policy { levels: 2, default_level: 2, ..Policy::new(1) };
    policy.default_queue_policy = QueuePolicy {
        timeout_action: TimeoutAction::Reject,
        default_timeout: Some(millis(30)),
        allow_timeout_override: true,
        max_queue_size: 2,
    };
    let mut queue = Queue::new(policy);
    queue.one(0);
    queue.one(0);
    assert_eq!(queue.with(Terms::default(), 0), Err(SubmitError::QueueFull));
    let urgent = Terms { priority: 1, ..Terms::default() };
    let urgent = queue.with(urgent, 1).expect("its level has room");
    let first = queue.run(1).expect("there is work");
    assert_eq!(first.members[0].id, urgent);
    assert_eq!(queue.expired(30), [SubmitError::Expired { own: None }, SubmitError::Expired { own: None }]);
}

//! The weaknesses of Triton's dynamic batcher, one by one, and that this one does not have them. What
//! is shown is what runs with what, never how fast.

#[path = "support/queue.rs"]
mod queue;

use std::sync::Arc;

use queue::{Queue, Rows, at, millis};
use weir_batcher::{Batcher, Bound, Policy, QueuePolicy, SubmitError, Terms, TimeoutAction, form_at};

/// Weakness 1. A batcher thread between callers and devices, woken for each request. Here the device's own
/// thread forms the batch: sixteen submissions are one pull, with no other thread in the process.
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

/// Weakness 2. Batches bound before a device can take them: two per instance, small, while more arrive. Here
/// the batch has all that came until the device was free, and the next one all since.
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

/// Weakness 3. Any queue policy turns the preparing ahead off. Here what runs with what, and when a batch
/// ahead is formed, do not depend on the policy of the queue.
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
    // A busy device's next batch is formed before it is free, by what preparing takes, whatever rules.
    assert_eq!(form_at(at(0), at(50), millis(10)), at(40));
}

/// Weakness 4. A counter of idle instances drifts, and throughput with it. Here there is no such counter: after
/// ten thousand rounds with timeouts and cancellations batches are as large as in the first, and an
/// idle queue predicts no wait.
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

/// Weakness 5. Timeouts are looked at every 500 ms while instances are busy, and late requests may still run.
/// Here an item is over at the moment it is, with no device asking, and never runs after.
#[test]
fn w05_timeouts_are_seen_when_they_pass() {
    let mut queue = Queue::new(Policy::new(1));
    let timed = Terms { timeout: Some(millis(7)), ..Terms::default() };
    let id = queue.with(timed, 0).expect("has room");
    assert_eq!(queue.assembler.expires_at(id), Some(at(7)));
    assert_eq!(queue.expired(6), []);
    assert_eq!(queue.expired(7), [SubmitError::Expired { own: Some(millis(7)) }]);
    assert!(queue.with(timed, 10).is_ok());
    assert!(queue.run(17).is_none(), "it is over when the device is free");
}

/// Weakness 6. A lone request on an idle device waits the whole delay that batching needs. Here batches come of
/// the device being busy: the lone one runs at once, the crowd together.
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

/// Weakness 7. A change of shape ends a batch, so that mixed traffic is not batched. Here each shape gathers on
/// its own, and a full one does not wait behind another's delay.
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

/// Weakness 8. Queues are unbounded by default, and limited in requests, whatever those cost. Here there is
/// always a bound, and a request that would be late is refused at once: by the work before it, not by the count.
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
    // A caller that could wait longer than the policy allows has time to try elsewhere; one that could not has none.
    for (timeout, allowed, bound) in [
        (millis(50), millis(20), Bound::Policy),
        (millis(20), millis(20), Bound::Item),
        (millis(5), millis(5), Bound::Item),
    ] {
        let terms = Terms { timeout: Some(timeout), ..Terms::default() };
        assert_eq!(queue.with(terms, 0), Err(error(allowed, bound)));
    }
}

/// Weakness 9. Urgent requests starve the rest. Here a patient one runs, with urgent ones coming for ever, as
/// soon as they came later than it by the ageing.
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
    // At 50 the urgent one of then counts as having come as early, and the patient one was first.
    assert_eq!(ran_at, Some(50));
}

/// Weakness 10. A merge that fails leaves the next batch marked as running, so that it cannot grow. Here what
/// does not fit stays in the queue like anything else, and grows.
#[test]
fn w10_what_did_not_fit_can_still_grow() {
    let mut queue = Queue::new(Policy::new(8));
    queue.rows(6, 0);
    queue.rows(4, 0);
    assert_eq!(queue.run(0).map(|batch| batch.weight), Some(6));
    queue.rows(4, 1);
    assert_eq!(queue.run(1).map(|batch| batch.weight), Some(8));
}

/// Weakness 11. The largest batch is taken for the best. Here measured times decide: with a model that does 36
/// rows a second in eights and 25 in thirty-twos, thirty-two waiting rows run as four eights; the
/// large size is tried again now and then; and where large is better, it is large.
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

/// Weakness 12. Without dynamic batching there are no limits, no timeouts, no priorities. Here a model that does
/// not batch has a queue like any other.
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

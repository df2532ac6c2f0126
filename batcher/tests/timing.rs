//! Timing of batches: Triton's settings with Triton's meaning.

#[path = "support/queue.rs"]
mod queue;

use queue::{Queue, Rows, at, millis};
use weir_batcher::{
    Assembler, AsyncDevice, Due, Item, Next, Policy, QueuePolicy, Staged, SubmitError, Terms, TimeoutAction,
};

fn patient(preferred: &[usize]) -> Policy {
    Policy { delay: millis(100), preferred: preferred.to_vec(), ..Policy::new(8) }
}

#[track_caller]
fn check(policy: Policy, rows: &[usize], now: &[usize], later: &[usize]) {
    let mut queue = Queue::new(policy);
    for &rows in rows {
        queue.rows(rows, 0);
    }
    assert_eq!(queue.sizes(0), now, "at once");
    assert_eq!(queue.sizes(99), [], "before the delay is over");
    assert_eq!(queue.sizes(100), later, "after the delay");
}

#[test]
fn a_preferred_size_goes_at_once() {
    check(patient(&[2, 6]), &[2], &[2], &[]);
    check(patient(&[2, 6]), &[1, 1], &[2], &[]);
    check(patient(&[2, 6]), &[3, 3], &[6], &[]);
}

#[test]
fn another_size_waits_out_the_delay() {
    check(patient(&[2, 6]), &[1], &[], &[1]);
    check(patient(&[2, 6]), &[1, 3], &[], &[4]);
}

#[test]
fn a_batch_ends_before_the_largest_preferred_size_would_be_exceeded() {
    check(patient(&[4]), &[3, 3], &[3], &[3]);
    check(patient(&[6]), &[7], &[7], &[]);
}

#[test]
fn the_longest_preferred_size_is_taken() {
    check(patient(&[2, 4]), &[1, 1, 1, 1, 1], &[4], &[1]);
}

#[test]
fn without_preferred_sizes_only_a_full_batch_goes_at_once() {
    check(patient(&[]), &[4, 4], &[8], &[]);
    check(patient(&[]), &[4, 5], &[4], &[5]);
    check(patient(&[]), &[4, 3], &[], &[7]);
}

#[test]
fn without_delay_preferred_sizes_limit_the_batch() {
    let policy = Policy { delay: millis(0), ..patient(&[4]) };
    check(policy, &[1; 10], &[4, 4, 2], &[]);
}

#[test]
fn an_item_over_the_limit_runs_alone() {
    check(Policy::new(8), &[1, 20, 1], &[1, 20, 1], &[]);
}

#[test]
fn the_queue_returns_when_to_call_again() {
    let mut queue = Queue::new(patient(&[]));
    assert_eq!(queue.assembler.due(at(0)), Due::Never);
    queue.one(3);
    assert_eq!(queue.assembler.due(at(4)), Due::At(at(103)));
    assert_eq!(queue.assembler.due(at(103)), Due::Now);
    assert!(matches!(queue.assembler.next(at(4)), Next::Run(_)), "time does not run backwards");
}

#[test]
fn each_shape_waits_out_its_own_delay() {
    let mut queue = Queue::new(patient(&[]));
    queue.shape("b", 0);
    queue.shape("a", 40);
    assert_eq!(queue.assembler.due(at(50)), Due::At(at(100)));
    assert_eq!(queue.sizes(100), [1]);
    assert_eq!(queue.assembler.due(at(100)), Due::At(at(140)));
}

#[test]
fn a_timeout_is_the_lesser_of_default_and_own() {
    let rules = |default_timeout, allow_timeout_override| QueuePolicy {
        default_timeout,
        allow_timeout_override,
        ..QueuePolicy::default()
    };
    let (short, long, none) = (Some(millis(5)), Some(millis(9)), None);
    assert_eq!(rules(long, true).timeout(short), short);
    assert_eq!(rules(short, true).timeout(long), short);
    assert_eq!(rules(long, false).timeout(short), long);
    assert_eq!(rules(none, true).timeout(short), short);
    assert_eq!(rules(none, false).timeout(short), none);
    assert_eq!(rules(long, true).timeout(Some(millis(0))), long);
    assert_eq!(rules(Some(millis(0)), true).timeout(none), none);
}

#[test]
fn delayed_items_run_after_those_in_time() {
    let mut policy = Policy::new(1);
    policy.default_queue_policy.timeout_action = TimeoutAction::Delay;
    let mut queue = Queue::new(policy);
    let timed = Terms { timeout: Some(millis(10)), ..Terms::default() };
    queue.with(timed, 0).expect("has room");
    queue.ones(2, 5);
    assert_eq!(queue.expired(10), []);
    queue.one(20);
    assert_eq!(queue.order(20), [1, 2, 3, 0]);
}

#[test]
fn levels_run_in_order() {
    let policy = Policy { levels: 10, default_level: 10, ..Policy::new(1) };
    let mut queue = Queue::new(policy);
    for priority in (1..=10).rev() {
        queue.with(Terms { priority, ..Terms::default() }, 0).expect("has room");
    }
    queue.one(0);
    assert_eq!(queue.order(0), [9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 10]);
}

#[test]
fn a_deadline_ends_the_wait_on_any_level_and_action() {
    let mut policy = Policy::new(1);
    policy.default_queue_policy.timeout_action = TimeoutAction::Delay;
    let mut queue = Queue::new(policy);
    let terms = Terms { timeout: Some(millis(2)), deadline: Some(at(6)), priority: 0 };
    queue.with(terms, 0).expect("has room");
    assert_eq!(queue.expired(5), []);
    let waited = millis(6);
    assert_eq!(queue.expired(6), [SubmitError::DeadlineExceeded { waited }]);
    let over = Terms { deadline: Some(at(6)), ..Terms::default() };
    let waited = millis(0);
    assert_eq!(queue.with(over, 7), Err(SubmitError::DeadlineExceeded { waited }));
}

#[test]
fn a_running_batch_counts_in_the_predicted_wait() {
    let mut queue = Queue::new(Policy::new(4));
    queue.assembler.record(&"a", 4, millis(40));
    queue.ones(4, 0);
    let running = queue.start(0).expect("there is work");
    assert_eq!(running.expected, millis(40));
    assert_eq!(queue.assembler.predicted_wait(0, at(10)), millis(30));
    queue.ones(2, 10);
    assert_eq!(queue.assembler.predicted_wait(0, at(10)), millis(50));
    queue.assembler.devices(2);
    assert_eq!(queue.assembler.predicted_wait(0, at(10)), millis(20));
    queue.assembler.starts(&running, 0, at(60));
    queue.assembler.devices(1);
    assert_eq!(queue.assembler.predicted_wait(0, at(10)), millis(110));
    queue.assembler.finished(running.number, at(10));
    assert_eq!(queue.assembler.predicted_wait(0, at(10)), millis(20));
}

/// A caller runs a batch itself only if it is expected to be short, so a probe of a larger size must not look short.
#[test]
fn the_expected_time_of_a_probe_is_that_of_its_size() {
    let mut queue = Queue::new(Policy::new(8));
    queue.assembler.record(&"a", 1, millis(1));
    queue.assembler.record(&"a", 8, millis(100));
    queue.ones(8, 0);
    let batches = (0..40).map(|_| {
        let expected = queue.assembler.expected(at(0));
        let batch = queue.run(0).expect("there is work");
        queue.ones(batch.weight, 0);
        assert_eq!(expected, Some(batch.expected), "{} rows", batch.weight);
        batch.weight
    });
    assert_eq!(batches.filter(|weight| *weight == 8).count(), 1);
}

#[test]
fn returning_items_are_awaited_for_a_limited_time_even_if_their_batch_never_ends() {
    let mut queue = Queue::new(Policy::new(8));
    queue.assembler.record(&"a", 1, millis(100));
    queue.assembler.record(&"a", 8, millis(100));
    queue.one(0);
    let first = queue.start(0).expect("there is work");
    queue.assembler.finished(first.number, at(100));
    queue.one(102);
    assert!(queue.start(102).is_some(), "the same client asks again 2 ms after its answer");
    queue.one(150);
    let device = AsyncDevice { free_at: at(202), inputs: millis(0), launch: millis(0), row: millis(0) };
    let Next::WaitUntil(until) = queue.assembler.next_ahead(device, &Staged::default(), at(190)) else {
        panic!("both clients share a batch if the second waits for the first");
    };
    assert_eq!(until, at(205), "1.5 times the turnaround after the batch's end");
    assert!(matches!(queue.assembler.next_ahead(device, &Staged::default(), at(302)), Next::WaitUntil(_)));
    assert!(
        matches!(queue.assembler.next_ahead(device, &Staged::default(), at(303)), Next::Run(_)),
        "the batch took twice its time"
    );
}

#[test]
fn a_batch_that_takes_longer_with_more_items_waits_for_none() {
    let mut queue = Queue::new(Policy::new(8));
    queue.assembler.record(&"a", 1, millis(100));
    queue.assembler.record(&"a", 2, millis(200));
    queue.one(0);
    let first = queue.start(0).expect("there is work");
    queue.assembler.finished(first.number, at(100));
    queue.one(102);
    assert!(queue.start(102).is_some());
    queue.one(150);
    let device = AsyncDevice { free_at: at(202), inputs: millis(0), launch: millis(0), row: millis(0) };
    assert!(matches!(queue.assembler.next_ahead(device, &Staged::default(), at(190)), Next::Run(_)));
}

#[test]
fn urgent_items_are_not_refused_because_of_items_they_overtake() {
    let policy = Policy { levels: 2, default_level: 2, ..Policy::new(1) };
    let mut queue = Queue::new(policy);
    queue.assembler.record(&"a", 1, millis(10));
    queue.ones(100, 0);
    let urgent = Terms { priority: 1, timeout: Some(millis(5)), ..Terms::default() };
    assert!(queue.with(urgent, 0).is_ok());
}

struct Shape(usize);

impl Item for Shape {
    type Group = usize;

    fn weight(&self) -> usize {
        1
    }

    fn group(&self) -> usize {
        self.0
    }
}

#[test]
fn the_number_of_remembered_shapes_is_limited() {
    let mut assembler = Assembler::new(Policy::new(4));
    for shape in 0..100_000 {
        assert!(assembler.admit(Shape(shape), Terms::default(), at(0)).is_ok());
        assert!(matches!(assembler.next(at(0)), Next::Run(_)));
        assembler.finished(shape as u64 + 1, at(0));
    }
    assert!(assembler.groups() <= 1024, "{}", assembler.groups());
}

#[test]
fn an_item_is_cancelled_only_once() {
    let mut queue = Queue::new(Policy::new(4));
    let id = queue.one(0);
    assert!(queue.assembler.cancel(id).is_some_and(|rows: Rows| rows.rows == 1));
    let same_slot = queue.one(0);
    assert!(queue.assembler.cancel(id).is_none());
    assert_eq!(queue.order(0), [same_slot.position()]);
}

#[test]
fn batches_shrink_when_memory_runs_out_and_a_larger_one_is_tried_a_second_later() {
    let mut queue = Queue::new(Policy::new(8));
    queue.assembler.ran_out_of_memory(&"a", 2, at(0));
    queue.ones(6, 0);
    queue.shape("b", 0);
    assert_eq!(queue.sizes(999), [2, 2, 2, 1]);
    queue.ones(8, 1_000);
    assert_eq!(queue.sizes(1_000), [4, 4]);
    queue.assembler.record(&"a", 4, millis(1));
    queue.ones(8, 1_999);
    assert_eq!(queue.sizes(1_999), [4, 4]);
    queue.ones(8, 2_000);
    assert_eq!(queue.sizes(2_000), [8]);
}

#[test]
fn a_batch_as_large_as_memory_allows_does_not_wait_for_more() {
    let mut queue = Queue::new(patient(&[]));
    queue.assembler.ran_out_of_memory(&"a", 2, at(0));
    queue.ones(3, 0);
    assert_eq!(queue.sizes(0), [2]);
}

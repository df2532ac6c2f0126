//! The batcher with real threads: each item is answered exactly once, whatever happens concurrently.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_batcher::{
    AsyncDevice, BatchStats, Batcher, Id, Item, Observer, Ordering, Policy, Stager, SubmitError, Terms, Work, Worker,
};

struct Job {
    number: usize,
    weight: usize,
    group: u8,
}

impl Item for Job {
    type Group = u8;

    fn weight(&self) -> usize {
        self.weight
    }

    fn group(&self) -> u8 {
        self.group
    }
}

#[derive(Default)]
struct Counts {
    admitted: AtomicUsize,
    refused: AtomicUsize,
    expired: AtomicUsize,
    cancelled: AtomicUsize,
    ran: AtomicUsize,
}

impl Observer for Counts {
    fn admitted(&self, _queued: usize) {
        self.admitted.fetch_add(1, SeqCst);
    }
    fn refused(&self, _error: &SubmitError) {
        self.refused.fetch_add(1, SeqCst);
    }
    fn expired(&self, _error: &SubmitError) {
        self.expired.fetch_add(1, SeqCst);
    }
    fn cancelled(&self) {
        self.cancelled.fetch_add(1, SeqCst);
    }
    fn formed(&self, batch: &BatchStats) {
        self.ran.fetch_add(batch.items, SeqCst);
    }
}

fn job(number: usize) -> Job {
    Job { number, weight: 1 + number % 3, group: (number % 2) as u8 }
}

/// Starts a device thread that answers each item with its number.
fn device(mut worker: Worker<Job, usize>) -> JoinHandle<usize> {
    thread::spawn(move || {
        let mut batches = 0;
        while let Some(work) = worker.pull() {
            batches += 1;
            run(work);
        }
        batches
    })
}

fn run(work: Work<Job, usize>) {
    let jobs = work.items();
    let weight: usize = jobs.iter().map(|job| job.weight).sum();
    assert_eq!(weight, work.weight());
    assert!(weight <= 8);
    assert!(jobs.iter().all(|job| job.group == jobs[0].group));
    let numbers = jobs.iter().map(|job| job.number).collect();
    work.answer(numbers);
}

/// Fails the test after a minute instead of hanging.
async fn within<T>(what: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    let Ok(done) = tokio::time::timeout(limit, what).await else {
        panic!("takes longer than any machine needs");
    };
    done
}

fn batcher(policy: Policy) -> (Batcher<Job, usize>, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    (Batcher::new(policy, Arc::clone(&counts) as _), counts)
}

#[expect(clippy::disallowed_methods, reason = "the tests measure real threads")]
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_of_many_submitters_gets_its_own_answer() {
    let (batcher, counts) = batcher(Policy::new(8));
    let devices: Vec<_> = (0..3).map(|_| device(batcher.worker())).collect();
    let submitters = (0..8).map(|submitter| {
        let batcher = batcher.clone();
        tokio::spawn(async move {
            for i in 0..2_000 {
                let number = submitter * 2_000 + i;
                let ticket = batcher.submit(job(number), Terms::default());
                assert_eq!(ticket.expect("is not full").await, Ok(number));
            }
        })
    });
    for submitter in submitters.collect::<Vec<_>>() {
        within(submitter).await.expect("does not panic");
    }
    batcher.close();
    within(batcher.drained()).await;
    for device in devices {
        device.join().expect("ends");
    }
    assert_eq!(counts.admitted.load(SeqCst), 16_000);
    assert_eq!(counts.ran.load(SeqCst), 16_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn cancelled_expired_and_run_items_add_up() {
    let (batcher, counts) = batcher(Policy::new(8));
    let submitters = (0..4).map(|submitter| {
        let batcher = batcher.clone();
        tokio::spawn(async move {
            let mut answered = 0;
            for i in 0..1_000 {
                let terms = Terms::default();
                let ticket = batcher.submit(job(submitter + i), terms).expect("has room");
                if i % 3 == 0 {
                    drop(ticket);
                } else {
                    assert_eq!(ticket.await, Ok(submitter + i));
                    answered += 1;
                }
            }
            answered
        })
    });
    let submitters: Vec<_> = submitters.collect();
    let devices: Vec<_> = (0..2).map(|_| device(batcher.worker())).collect();
    let mut answered = 0;
    for submitter in submitters {
        answered += within(submitter).await.expect("does not panic");
    }
    batcher.close();
    within(batcher.drained()).await;
    devices.into_iter().for_each(|device| {
        device.join().expect("ends");
    });
    assert_eq!(answered, 4 * 666);
    let ended = counts.ran.load(SeqCst) + counts.cancelled.load(SeqCst);
    assert_eq!(ended, 4_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drain_answers_queued_items_and_refuses_new_ones() {
    let (batcher, _) = batcher(Policy { delay: Duration::from_secs(3600), ..Policy::new(8) });
    let tickets: Vec<_> =
        (0..100).map(|number| batcher.submit(job(number), Terms::default()).expect("has room")).collect();
    let device = device(batcher.worker());
    batcher.close();
    let refused = batcher.submit(job(0), Terms::default());
    assert_eq!(refused.err(), Some(SubmitError::Draining));
    within(batcher.drained()).await;
    for (number, ticket) in tickets.into_iter().enumerate() {
        assert_eq!(within(ticket).await, Ok(number));
    }
    device.join().expect("ends");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_flush_no_item_waits_for_more_items() {
    let (batcher, _) = batcher(Policy { delay: Duration::from_secs(3600), ..Policy::new(8) });
    let device = device(batcher.worker());
    let submit = |number| {
        let ticket = batcher.submit(job(number), Terms::default());
        ticket.expect("has room")
    };
    let queued = tokio::spawn(submit(0));
    batcher.flush();
    assert_eq!(within(queued).await.expect("does not panic"), Ok(0));
    assert_eq!(within(submit(3)).await, Ok(3), "items that are submitted later run at once, too");
    batcher.close();
    device.join().expect("ends");
}

#[tokio::test]
async fn dropping_the_last_handle_ends_the_workers() {
    let (batcher, _) = batcher(Policy::new(8));
    let other = batcher.clone();
    let device = device(batcher.worker());
    drop(batcher);
    let ticket = other.submit(job(7), Terms::default()).expect("is open");
    drop(other);
    assert_eq!(within(ticket).await, Ok(7));
    device.join().expect("ends");
}

#[tokio::test]
async fn a_dropped_batch_is_lost_and_so_is_a_queue_without_workers() {
    let (batcher, _) = batcher(Policy::new(1));
    let mut worker = batcher.worker();
    let first = batcher.submit(Job { number: 1, weight: 1, group: 0 }, Terms::default());
    let second = batcher.submit(Job { number: 2, weight: 1, group: 0 }, Terms::default());
    drop(worker.pull());
    assert_eq!(within(first.expect("admitted")).await, Err(SubmitError::Lost));
    batcher.close();
    drop(worker);
    assert_eq!(within(second.expect("admitted")).await, Err(SubmitError::Lost));
    within(batcher.drained()).await;
}

#[tokio::test]
async fn items_without_an_answer_are_lost() {
    let (batcher, _) = batcher(Policy::new(8));
    let mut worker = batcher.worker();
    let tickets = [0, 2].map(|n| batcher.submit(job(n), Terms::default()).expect("has room"));
    worker.pull().expect("is due").answer(vec![0]);
    let [first, second] = tickets;
    assert_eq!(within(first).await, Ok(0));
    assert_eq!(within(second).await, Err(SubmitError::Lost));
}

#[tokio::test]
async fn items_expire_while_the_only_device_is_busy() {
    let (batcher, counts) = batcher(Policy::new(1));
    let mut worker = batcher.worker();
    let soon = Duration::from_millis(5);
    let one = || Job { number: 0, weight: 1, group: 0 };
    let deadline = Some(now() + soon);
    let running = batcher.submit(one(), Terms { deadline, ..Terms::default() });
    let work = worker.pull().expect("is due");
    let timed = Terms { timeout: Some(soon), ..Terms::default() };
    let waiting = batcher.submit(one(), timed).expect("has room");
    assert_eq!(within(waiting).await, Err(SubmitError::Expired { own: Some(soon) }));
    let running = within(running.expect("has room")).await;
    assert!(matches!(running, Err(SubmitError::DeadlineExceeded { .. })));
    assert_eq!(batcher.queued(), 0);
    assert_eq!(counts.expired.load(SeqCst), 2);
    work.answer(vec![0]);
}

#[tokio::test]
async fn a_timeout_does_not_apply_to_a_running_item() {
    let (batcher, _) = batcher(Policy::new(1));
    let mut worker = batcher.worker();
    let timed = Terms { timeout: Some(Duration::from_millis(2)), ..Terms::default() };
    let ticket = batcher.submit(Job { number: 4, weight: 1, group: 0 }, timed);
    let work = worker.pull().expect("is due");
    let mut ticket = ticket.expect("has room");
    let early = tokio::time::timeout(Duration::from_millis(10), &mut ticket).await;
    assert!(early.is_err());
    work.answer(vec![4]);
    assert_eq!(within(ticket).await, Ok(4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn answers_leave_in_the_order_of_admission() {
    let policy = Policy { ordering: Ordering::Admission, ..Policy::new(1) };
    let (batcher, _) = batcher(policy);
    let (mut left, mut right) = (batcher.worker(), batcher.worker());
    let one = |number| Job { number, weight: 1, group: 0 };
    let mut first = batcher.submit(one(1), Terms::default()).expect("has room");
    let mut second = batcher.submit(one(2), Terms::default()).expect("has room");
    let third = batcher.submit(one(3), Terms::default()).expect("has room");
    let fourth = batcher.submit(one(4), Terms::default()).expect("has room");
    let (early, late) = (left.pull().expect("is due"), right.pull().expect("is due"));
    late.answer(vec![2]);
    let held = tokio::time::timeout(Duration::from_millis(5), &mut second).await;
    assert!(held.is_err(), "the second overtook the first");
    early.answer(vec![1]);
    assert_eq!(within(&mut first).await, Ok(1));
    assert_eq!(within(second).await, Ok(2));
    drop(third);
    left.pull().expect("is due").answer(vec![4]);
    assert_eq!(within(fourth).await, Ok(4));
}

/// An item of one row and of the one group that the tests of batches ahead use.
fn single() -> Job {
    Job { number: 0, weight: 1, group: 0 }
}

fn busy_until(free_at: Instant) -> AsyncDevice {
    AsyncDevice { free_at, inputs: Duration::ZERO, launch: Duration::ZERO, row: Duration::ZERO }
}

#[test]
fn an_idle_device_counts_as_free_beside_one_with_a_batch_ahead() {
    let (batcher, _) = batcher(Policy::new(1));
    let (mut busy, _idle) = (batcher.worker(), batcher.worker());
    let minute = Duration::from_secs(60);
    batcher.record(&0, 1, minute);
    let tickets = [(); 2].map(|()| batcher.submit(single(), Terms::default()).expect("has room"));
    let running = busy.pull().expect("is due");
    let ahead = busy.pull_ahead(busy_until(now() + minute), Duration::ZERO, &mut ()).expect("is full");
    assert_eq!(batcher.predicted_wait(), Duration::ZERO);
    running.answer(vec![0]);
    ahead.answer(vec![0]);
    drop(tickets);
}

#[test]
fn a_batch_ahead_is_formed_just_before_the_device_is_free() {
    let (batcher, _) = batcher(Policy::new(8));
    let mut worker = batcher.worker();
    let first = batcher.submit(single(), Terms::default());
    let running = worker.pull().expect("is due");
    let second = batcher.submit(single(), Terms::default());
    let (span, prepare) = (Duration::from_millis(6), Duration::from_millis(2));
    let free_at = now() + span;
    let work = worker.pull_ahead(busy_until(free_at), prepare, &mut ()).expect("is due");
    assert!(work.started() >= free_at - prepare);
    running.answer(vec![0]);
    work.answer(vec![0]);
    drop((first, second));
}

#[test]
fn a_full_batch_ahead_is_formed_at_once() {
    let (batcher, _) = batcher(Policy::new(1));
    let mut worker = batcher.worker();
    let first = batcher.submit(single(), Terms::default());
    let running = worker.pull().expect("is due");
    let second = batcher.submit(single(), Terms::default());
    let free_at = now() + Duration::from_secs(3);
    let work = worker.pull_ahead(busy_until(free_at), Duration::ZERO, &mut ()).expect("is due");
    assert!(work.started() < free_at);
    running.answer(vec![0]);
    work.answer(vec![0]);
    drop((first, second));
}

/// Sends a message when an item is staged, and stages no more. The worker then sleeps until the batch is formed.
struct Signal(mpsc::Sender<()>);

impl Stager<Job> for Signal {
    fn note(&mut self, _: Id, _: &Job, _: usize) {}

    fn copy(&mut self) -> ControlFlow<()> {
        assert!(self.0.send(()).is_ok(), "the test waits");
        ControlFlow::Break(())
    }
}

/// The first run of a shape compiles for it, so the second is expected to take as long, and ends much sooner.
#[test]
fn a_batch_ahead_is_formed_when_the_device_is_free_sooner_than_expected() {
    let (batcher, _) = batcher(Policy::new(8));
    let mut worker = batcher.worker();
    let first = batcher.submit(single(), Terms::default());
    let running = worker.pull().expect("is due");
    let second = batcher.submit(single(), Terms::default());
    let free_at = now() + Duration::from_secs(30);
    let (sender, staged) = mpsc::channel();
    let ahead = thread::spawn(move || {
        let work = worker.pull_ahead(busy_until(free_at), Duration::ZERO, &mut Signal(sender)).expect("is due");
        let started = work.started();
        work.answer(vec![0]);
        started
    });
    staged.recv().expect("the second item is staged");
    running.answer(vec![0]);
    assert!(ahead.join().expect("ends") < free_at);
    drop((first, second));
}

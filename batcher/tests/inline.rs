//! Inline runs with real threads: each caller gets its own answer, whichever thread runs the batch.

#![expect(clippy::expect_used, reason = "a test may end at once")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_batcher::{Batcher, InlineRun, Item, Policy, Terms, Ticket, Work};

const LIMIT: Duration = Duration::from_millis(1);

struct Job {
    number: usize,
    group: u8,
}

impl Item for Job {
    type Group = u8;

    fn weight(&self) -> usize {
        1
    }

    fn group(&self) -> u8 {
        self.group
    }
}

/// Group of items that are known to be short.
const SHORT: u8 = 0;

/// Number of concurrent runs now, and its maximum so far.
#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Busy {
    fn run(&self, work: Work<Job, usize>) {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        let numbers = work.items().iter().map(|job| job.number).collect();
        self.now.fetch_sub(1, SeqCst);
        work.answer(numbers);
    }
}

struct Fixture {
    batcher: Batcher<Job, usize>,
    busy: Arc<Busy>,
    devices: Vec<JoinHandle<usize>>,
}

impl Fixture {
    fn new(devices: usize) -> Self {
        let batcher = Batcher::new(Policy::new(4), Arc::new(()));
        for weight in 1..=4 {
            batcher.record(&SHORT, weight, LIMIT / 2);
        }
        let busy = Arc::new(Busy::default());
        let devices = (0..devices).map(|number| device(&batcher, &busy, number));
        Self { devices: devices.collect(), batcher, busy }
    }

    fn submit(&self, number: usize, group: u8) -> Ticket<usize> {
        let job = Job { number, group };
        self.batcher.submit(job, Terms::default()).expect("has room")
    }

    /// Submits items until a worker is idle, so that an inline run can start on its device.
    async fn start_inline(&self) -> (InlineRun<Job, usize>, Ticket<usize>) {
        loop {
            let mut ticket = self.submit(7, SHORT);
            match self.batcher.start_inline(&mut ticket, LIMIT) {
                Some(run) => return (run, ticket),
                None => assert_eq!(within(ticket).await, Ok(7)),
            }
        }
    }

    async fn end(self) -> usize {
        self.batcher.close();
        within(self.batcher.drained()).await;
        let ran = self.devices.into_iter().map(|device| device.join());
        ran.map(|batches| batches.expect("ends")).sum()
    }
}

fn device(batcher: &Batcher<Job, usize>, busy: &Arc<Busy>, number: usize) -> JoinHandle<usize> {
    let mut worker = batcher.inline_worker(number);
    let busy = Arc::clone(busy);
    thread::spawn(move || {
        let mut batches = 0;
        while let Some(work) = worker.pull() {
            batches += 1;
            busy.run(work);
        }
        batches
    })
}

/// Fails the test after a minute instead of hanging.
async fn within<T>(what: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    let Ok(done) = tokio::time::timeout(limit, what).await else {
        panic!("takes longer than any machine needs");
    };
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_caller_gets_its_own_answer_and_no_device_runs_two_batches_at_once() {
    let fixture = Arc::new(Fixture::new(2));
    let inline = Arc::new(AtomicUsize::new(0));
    let submitters = (0..8_usize).map(|submitter| {
        let (fixture, inline) = (Arc::clone(&fixture), Arc::clone(&inline));
        tokio::spawn(async move {
            for i in 0..2_000 {
                let number = submitter * 2_000 + i;
                // Every eighth item is of a group that was not measured, and is left to the workers.
                let mut ticket = fixture.submit(number, u8::from(i % 8 == 0));
                if let Some(mut run) = fixture.batcher.start_inline(&mut ticket, LIMIT) {
                    assert!(!ticket.wakes_worker());
                    while let Some(work) = run.pull() {
                        inline.fetch_add(1, SeqCst);
                        fixture.busy.run(work);
                    }
                }
                assert_eq!(ticket.await, Ok(number));
            }
        })
    });
    for submitter in submitters.collect::<Vec<_>>() {
        within(submitter).await.expect("does not panic");
    }
    assert!(fixture.busy.most.load(SeqCst) <= 2);
    assert!(inline.load(SeqCst) > 0);
    let fixture = Arc::into_inner(fixture).expect("is free");
    fixture.end().await;
}

#[tokio::test]
async fn a_batch_of_an_unmeasured_group_is_left_to_its_worker() {
    let fixture = Fixture::new(1);
    let mut ticket = fixture.submit(3, SHORT + 1);
    assert!(fixture.batcher.start_inline(&mut ticket, LIMIT).is_none());
    assert_eq!(within(ticket).await, Ok(3));
    assert_eq!(fixture.end().await, 1);
}

#[tokio::test]
async fn a_long_batch_that_arrives_during_an_inline_run_is_left_to_the_worker() {
    let fixture = Fixture::new(1);
    let (mut run, first) = fixture.start_inline().await;
    let work = run.pull().expect("was taken");
    let second = fixture.submit(8, SHORT + 1);
    assert!(!second.wakes_worker(), "its device is in use");
    fixture.busy.run(work);
    assert!(run.pull().is_none());
    assert_eq!(run.expected(), None);
    assert_eq!(within(first).await, Ok(7));
    drop(run);
    assert_eq!(within(second).await, Ok(8));
    fixture.end().await;
}

#[tokio::test]
async fn a_dropped_inline_run_fails_its_batch_and_frees_the_device() {
    let fixture = Fixture::new(1);
    let (run, ticket) = fixture.start_inline().await;
    drop(run);
    assert!(within(ticket).await.is_err());
    assert_eq!(within(fixture.submit(9, SHORT + 1)).await, Ok(9));
    fixture.end().await;
}

#[tokio::test]
async fn a_queue_that_closes_during_an_inline_run_ends_after_it() {
    let fixture = Fixture::new(1);
    let (mut run, ticket) = fixture.start_inline().await;
    fixture.batcher.close();
    let work = run.pull().expect("was taken");
    fixture.busy.run(work);
    drop(run);
    assert_eq!(within(ticket).await, Ok(7));
    fixture.end().await;
}

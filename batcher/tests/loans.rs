//! Lent places, with real threads: who runs a batch makes no difference to whom it belongs.

#![expect(clippy::expect_used, reason = "a test may end at once")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_batcher::{Batcher, Item, Loan, Policy, Terms, Ticket, Work};

const BRIEF: Duration = Duration::from_millis(1);

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

/// Items of this group are known to be short.
const SHORT: u8 = 0;

/// Who works at a moment, and the most that ever did.
#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
}

impl Busy {
    fn run(&self, mut work: Work<Job, usize>) {
        let now = self.now.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(now, SeqCst);
        let numbers = work.take_items().iter().map(|job| job.number).collect();
        self.now.fetch_sub(1, SeqCst);
        work.answer(numbers);
    }
}

struct Desk {
    batcher: Batcher<Job, usize>,
    busy: Arc<Busy>,
    devices: Vec<JoinHandle<usize>>,
}

impl Desk {
    fn new(devices: usize) -> Self {
        let batcher = Batcher::new(Policy::new(4), Arc::new(()));
        for weight in 1..=4 {
            batcher.record(&SHORT, weight, BRIEF / 2);
        }
        let busy = Arc::new(Busy::default());
        let devices = (0..devices).map(|number| device(&batcher, &busy, number));
        Self {
            devices: devices.collect(),
            batcher,
            busy,
        }
    }

    fn submit(&self, number: usize, group: u8) -> Ticket<usize> {
        let job = Job { number, group };
        self.batcher
            .submit(job, Terms::default())
            .expect("has room")
    }

    /// Submits until a device is found asleep, and takes its place.
    async fn borrow(&self) -> (Loan<Job, usize>, Ticket<usize>) {
        loop {
            let mut ticket = self.submit(7, SHORT);
            match self.batcher.take_over(&mut ticket, BRIEF) {
                Some(loan) => return (loan, ticket),
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
    let mut puller = batcher.lending_puller(number);
    let busy = Arc::clone(busy);
    thread::spawn(move || {
        let mut batches = 0;
        while let Some(work) = puller.pull() {
            batches += 1;
            busy.run(work);
        }
        batches
    })
}

/// Fails the test instead of hanging it.
async fn within<T>(what: impl Future<Output = T>) -> T {
    let limit = Duration::from_secs(60);
    let Ok(done) = tokio::time::timeout(limit, what).await else {
        panic!("takes longer than any machine needs");
    };
    done
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_gets_its_own_answer_and_no_place_is_used_twice_at_once() {
    let desk = Arc::new(Desk::new(2));
    let lent = Arc::new(AtomicUsize::new(0));
    let submitters = (0..8_usize).map(|submitter| {
        let (desk, lent) = (Arc::clone(&desk), Arc::clone(&lent));
        tokio::spawn(async move {
            for i in 0..2_000 {
                let number = submitter * 2_000 + i;
                // Every eighth is of a group that nobody measured, and is left to the devices.
                let mut ticket = desk.submit(number, u8::from(i % 8 == 0));
                if let Some(mut loan) = desk.batcher.take_over(&mut ticket, BRIEF) {
                    assert!(!ticket.will_wake());
                    while let Some(work) = loan.pull() {
                        lent.fetch_add(1, SeqCst);
                        desk.busy.run(work);
                    }
                }
                assert_eq!(ticket.await, Ok(number));
            }
        })
    });
    for submitter in submitters.collect::<Vec<_>>() {
        within(submitter).await.expect("does not panic");
    }
    assert!(desk.busy.most.load(SeqCst) <= 2);
    assert!(lent.load(SeqCst) > 0);
    let desk = Arc::into_inner(desk).expect("is free");
    desk.end().await;
}

#[tokio::test]
async fn what_nobody_measured_is_left_to_its_device() {
    let desk = Desk::new(1);
    let mut ticket = desk.submit(3, SHORT + 1);
    assert!(desk.batcher.take_over(&mut ticket, BRIEF).is_none());
    assert_eq!(within(ticket).await, Ok(3));
    assert_eq!(desk.end().await, 1);
}

#[tokio::test]
async fn what_came_during_a_loan_and_is_not_short_is_its_owners() {
    let desk = Desk::new(1);
    let (mut loan, first) = desk.borrow().await;
    let work = loan.pull().expect("was taken");
    let second = desk.submit(8, SHORT + 1);
    assert!(!second.will_wake(), "its place is taken");
    desk.busy.run(work);
    assert!(loan.pull().is_none());
    assert_eq!(loan.expected(), None);
    assert_eq!(within(first).await, Ok(7));
    drop(loan);
    assert_eq!(within(second).await, Ok(8));
    desk.end().await;
}

#[tokio::test]
async fn a_loan_that_is_dropped_gives_its_batch_up_and_its_place_back() {
    let desk = Desk::new(1);
    let (loan, ticket) = desk.borrow().await;
    drop(loan);
    assert!(within(ticket).await.is_err());
    assert_eq!(within(desk.submit(9, SHORT + 1)).await, Ok(9));
    desk.end().await;
}

#[tokio::test]
async fn a_queue_that_closes_while_its_place_is_lent_ends_when_it_is_back() {
    let desk = Desk::new(1);
    let (mut loan, ticket) = desk.borrow().await;
    desk.batcher.close();
    let work = loan.pull().expect("was taken");
    desk.busy.run(work);
    drop(loan);
    assert_eq!(within(ticket).await, Ok(7));
    desk.end().await;
}

//! Tests of a device that works asynchronously, with one batch started ahead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::backend::{Batch, BatchOutput, Instance, ModelError, Overlap, Pending, StagedRows, Started};
use crate::error::ServeError;
use parking_lot::Mutex;

use super::fake::{Fake, Running, add_one, answer, inputs, numbers};
use crate::engine::runner::now;

/// Timeout that is longer than any test needs on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

type Verdict = Result<(), ModelError>;

struct DeviceSide {
    /// Receives the rows of each started batch.
    started: Mutex<Sender<usize>>,
    /// The results of the batches, in order.
    verdicts: Mutex<Receiver<Verdict>>,
    alone: Arc<Mutex<Vec<usize>>>,
}

struct Copied {
    device: Arc<DeviceSide>,
    answer: Result<BatchOutput, ModelError>,
}

/// An instance that adds one, as soon as the test allows it.
struct SlowInstance(Arc<DeviceSide>);

impl Instance for SlowInstance {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError> {
        self.0.alone.lock().push(batch.rows);
        add_one(batch)
    }

    fn overlap(&self) -> Overlap {
        Overlap::OneAhead
    }

    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        self.0.started.lock().send(batch.rows).unwrap();
        if batch.rows > 4 {
            return Err(ModelError::OutOfMemory("more than 4 rows".to_owned()));
        }
        Ok(Started::Pending(Box::new(Copied { device: Arc::clone(&self.0), answer: add_one(batch) })))
    }
}

impl Pending for Copied {
    fn finish(self: Box<Self>) -> Result<BatchOutput, ModelError> {
        self.device.verdicts.lock().recv().unwrap()?;
        self.answer
    }
}

struct Test {
    running: Running,
    started: Receiver<usize>,
    verdicts: Sender<Verdict>,
}

impl Test {
    fn new() -> Self {
        let (sender, started) = channel();
        let (verdicts, receiver) = channel();
        let fake = Fake::new(add_one);
        let device = Arc::new(DeviceSide {
            started: Mutex::new(sender),
            verdicts: Mutex::new(receiver),
            alone: Arc::clone(&fake.runs),
        });
        let running = fake.start_instances(move || Ok(Box::new(SlowInstance(Arc::clone(&device))))).unwrap();
        Self { running, started, verdicts }
    }

    fn next_start(&self) -> usize {
        self.started.recv_timeout(TIMEOUT).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_batch_starts_before_the_previous_one_is_done() {
    let test = Test::new();
    let first = test.running.ask(1);
    assert_eq!(test.next_start(), 1);
    let second = test.running.ask(2);
    assert_eq!(test.next_start(), 1, "while nothing has come back");
    let third = test.running.ask(3);
    test.running.queued(1).await;
    for _ in 0..3 {
        test.verdicts.send(Ok(())).unwrap();
    }
    assert_eq!(first.await.unwrap(), Ok(vec![2]));
    assert_eq!(second.await.unwrap(), Ok(vec![3]));
    assert_eq!(third.await.unwrap(), Ok(vec![4]));
    assert_eq!(*test.running.runs.lock(), [0; 0], "nothing ran twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_failed_batch_are_retried_alone_without_affecting_others() {
    let test = Test::new();
    let first = test.running.ask(1);
    assert_eq!(test.next_start(), 1);
    let second = test.running.ask(2);
    assert_eq!(test.next_start(), 1);
    let (third, fourth) = (test.running.ask(3), test.running.ask(4));
    test.running.queued(2).await;
    let raised = || Err(ModelError::Failed("raised".to_owned()));
    for verdict in [raised(), Ok(()), raised()] {
        test.verdicts.send(verdict).unwrap();
    }
    let error = first.await.unwrap().unwrap_err();
    assert!(matches!(error, ServeError::Model(_)), "{error}");
    assert_eq!(second.await.unwrap(), Ok(vec![3]));
    assert_eq!(third.await.unwrap(), Ok(vec![4]));
    assert_eq!(fourth.await.unwrap(), Ok(vec![5]));
    assert_eq!(*test.running.runs.lock(), [1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_out_of_memory_at_its_start_runs_in_halves() {
    let test = Test::new();
    let first = test.running.ask(0);
    assert_eq!(test.next_start(), 1);
    let second = test.running.ask(0);
    assert_eq!(test.next_start(), 1);
    let others: Vec<_> = (1..=6).map(|x| test.running.ask(x)).collect();
    test.running.queued(6).await;
    for _ in 0..2 {
        test.verdicts.send(Ok(())).unwrap();
    }
    for (x, other) in (1..).zip(others) {
        assert_eq!(other.await.unwrap(), Ok(vec![x + 1]));
    }
    assert_eq!(test.next_start(), 6);
    assert_eq!(*test.running.runs.lock(), [3, 3]);
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
}

/// An instance whose runs end when their launch ends. Each launch keeps the instance's thread busy for [`LAUNCH`]. The
/// channel gets the rows of each started batch.
struct LaunchingInstance(Sender<usize>);

/// Time of the launches of a batch: much longer than a client takes to send its next request.
const LAUNCH: Duration = Duration::from_millis(40);

impl Instance for LaunchingInstance {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError> {
        self.start(batch)?.finish()
    }

    fn overlap(&self) -> Overlap {
        Overlap::OneAhead
    }

    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        let _ = self.0.send(batch.rows);
        std::thread::sleep(LAUNCH);
        add_one(batch).map(Started::Done)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_share_one_batch_where_it_takes_as_long_as_two_smaller_ones() {
    let (sender, started) = channel();
    let make = move || Ok(Box::new(LaunchingInstance(sender.clone())) as Box<dyn Instance>);
    let running = Fake::new(add_one).start_instances(make).unwrap();
    let clients: Vec<_> = (0..8)
        .map(|x| {
            let running = running.clone();
            tokio::spawn(async move { while running.ask(x).await.is_ok() {} })
        })
        .collect();
    // Eight requests in one batch may be chance once, but not four times in a row.
    let shared = tokio::task::spawn_blocking(move || {
        let mut in_a_row = 0;
        for _ in 0..100 {
            let rows = started.recv_timeout(TIMEOUT).unwrap();
            in_a_row = if rows == 8 { in_a_row + 1 } else { 0 };
            if in_a_row == 4 {
                return true;
            }
        }
        false
    });
    assert!(shared.await.unwrap(), "the clients always ran in two batches");
    clients.iter().for_each(tokio::task::JoinHandle::abort);
}

/// An instance that adds one to inputs that it stages, on a device that runs one batch at a time.
struct StagingInstance {
    /// The inputs that were staged since the last batch, and the number of their memory.
    memory: (u64, Vec<i32>),
    /// Number of requests whose staged inputs were used.
    staged: Arc<AtomicUsize>,
    device_free: Instant,
}

struct OnDevice {
    until: Instant,
    answer: BatchOutput,
}

/// Time of a batch on the device: much longer than a client takes to send its next request.
const RUN: Duration = Duration::from_millis(10);

impl Instance for StagingInstance {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError> {
        self.start(batch)?.finish()
    }

    fn overlap(&self) -> Overlap {
        Overlap::OneAhead
    }

    fn stage(&mut self, request: &Batch, most: usize) -> Option<StagedRows> {
        let (number, memory) = &mut self.memory;
        let first = memory.len();
        if first + request.rows > most {
            return None;
        }
        memory.extend(inputs(request));
        Some(StagedRows { memory: *number, first })
    }

    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        let next = self.memory.0 + 1;
        let (number, memory) = std::mem::replace(&mut self.memory, (next, Vec::new()));
        let mut sums = Vec::new();
        for (request, part) in batch.requests.iter().zip(&batch.columns[0].parts) {
            let rows = match request.staged.filter(|staged| staged.memory == number) {
                Some(StagedRows { first, .. }) => {
                    self.staged.fetch_add(1, SeqCst);
                    memory[first..first + request.rows].to_vec()
                }
                None => numbers(&part.data),
            };
            sums.extend(rows.iter().map(|x| x + 1));
        }
        self.device_free = self.device_free.max(now()) + RUN;
        let answer = answer(&[batch.rows as i64, 1], &sums);
        Ok(Started::Pending(Box::new(OnDevice { until: self.device_free, answer })))
    }
}

impl Pending for OnDevice {
    fn finish(self: Box<Self>) -> Result<BatchOutput, ModelError> {
        std::thread::sleep(self.until.saturating_duration_since(now()));
        Ok(self.answer)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn staged_requests_get_their_own_answers_while_others_are_cancelled() {
    let staged = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&staged);
    let make = move || {
        let (memory, staged) = ((0, Vec::new()), Arc::clone(&count));
        Ok(Box::new(StagingInstance { memory, staged, device_free: now() }) as Box<dyn Instance>)
    };
    let running = Fake::new(add_one).start_instances(make).unwrap();
    let clients = (0..6).map(|client| {
        let running = running.clone();
        tokio::spawn(async move {
            for x in (0..30).map(|number| 1_000 * client + number) {
                let cancelled = running.ask(-x);
                let answer = running.ask(x);
                tokio::task::yield_now().await;
                cancelled.abort();
                assert_eq!(answer.await.unwrap(), Ok(vec![x + 1]));
            }
        })
    });
    for client in clients.collect::<Vec<_>>() {
        tokio::time::timeout(TIMEOUT, client).await.unwrap().unwrap();
    }
    let staged = staged.load(SeqCst);
    assert!(staged > 100, "only {staged} of 180 requests were staged");
}

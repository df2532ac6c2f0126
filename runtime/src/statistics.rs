//! Statistics of a model version: Triton's counters, and Weir's own about waiting, batching and refusing.
//!
//! One short lock is taken per batch, refusal or scrape, never per tensor. Time is an argument: only the engine reads
//! the clock.

mod grpc;
mod histogram;
mod json;

use std::collections::BTreeMap;
use std::time::Duration;

use parking_lot::Mutex;

pub(crate) use histogram::Histogram;
pub(crate) use json::statistics_body;

/// Upper bounds in seconds of the queue-delay histogram. They are a 1-2.5-5 series from the time of handing over a
/// single request (100 µs) to 10 s, then 30 s and a minute. After a minute common clients have given up.
pub(crate) const QUEUE_DELAY_BOUNDS: [f64; 18] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

/// Upper bounds in rows of the batch-size histogram: powers of two, like common batch sizes.
pub(crate) const BATCH_SIZE_BOUNDS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Triton's default bounds in ms of `nv_inference_first_response_histogram_ms`.
const FIRST_RESPONSE_BOUNDS: [f64; 4] = [100.0, 500.0, 2000.0, 5000.0];

/// The running statistics of one model version.
#[derive(Debug)]
pub struct Statistics {
    totals: Mutex<Snapshot>,
}

/// One batch execution, as the engine measured it.
#[derive(Clone, Copy, Debug)]
pub struct BatchRecord<'a> {
    /// Index of the instance that ran it.
    pub instance: usize,
    /// Sum of the requests' batch sizes.
    pub rows: usize,
    /// The requests, in any order.
    pub requests: &'a [RequestRecord],
    /// Time for gathering and copying inputs.
    pub compute_input: Duration,
    /// Time in the model itself.
    pub compute_infer: Duration,
    /// Time for slicing and copying outputs.
    pub compute_output: Duration,
    /// Outcome of the batch for all its requests.
    pub outcome: BatchOutcome,
    /// End of the execution, in ms of Unix time.
    pub ended_ms: u64,
}

/// One request of a [`BatchRecord`].
#[derive(Clone, Copy, Debug, Default)]
pub struct RequestRecord {
    /// Time from admission until the batch began.
    pub queue: Duration,
    /// Time from arrival until the answer was ready.
    pub total: Duration,
}

/// The outcome of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchOutcome {
    /// Every request got its outputs.
    Succeeded,
    /// The model failed, and with it every request in the batch.
    Failed,
    /// The model failed, and the requests are run again in smaller batches. The time on the instance counts, but no
    /// request has ended yet.
    Retried,
}

/// The cause of a failed request: the `reason` label of `nv_inference_request_failure`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The request was refused, or its time in the queue ran out.
    Rejected,
    /// The client disconnected or cancelled the request.
    Canceled,
    /// The model returned an error.
    Backend,
    /// A reason other than these.
    Other,
}

/// The cause of a refusal before queueing: the `cause` label of `weir_runtime_refused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The queue is full.
    QueueFull,
    /// The predicted wait is longer than the request or the queue policy allows.
    PredictedWait,
    /// The request's deadline had passed on arrival.
    Deadline,
    /// The server is shutting down or the version is being unloaded.
    Draining,
}

/// A number of events and their total time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of events counted.
    pub count: u64,
    /// Total time of the events, in nanoseconds.
    pub ns: u64,
}

/// Executions with one batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTally {
    /// Time for gathering and copying inputs.
    pub compute_input: Tally,
    /// Time in the model itself.
    pub compute_infer: Tally,
    /// Time for slicing and copying outputs.
    pub compute_output: Tally,
}

/// The statistics at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// End of the last execution, in ms of Unix time; 0 before the first.
    pub last_inference_ms: u64,
    /// Rows of answered requests.
    pub inference_count: u64,
    /// Number of answered batches.
    pub execution_count: u64,
    /// Answered requests, and their time from arrival to answer.
    pub success: Tally,
    /// Failed requests, and the time spent on them.
    pub fail: Tally,
    /// Executed requests, and their time in the queue.
    pub queue: Tally,
    /// Executed requests, and the time of their batches for inputs.
    pub compute_input: Tally,
    /// Executed requests, and the time of their batches in the model.
    pub compute_infer: Tally,
    /// Executed requests, and the time of their batches for outputs.
    pub compute_output: Tally,
    /// Executions by batch size.
    pub batches: BTreeMap<usize, BatchTally>,
    /// Failed requests, in the order of [`Reason::ALL`].
    pub failures: [u64; Reason::ALL.len()],
    /// Refused requests, in the order of [`Refusal::ALL`].
    pub refusals: [u64; Refusal::ALL.len()],
    /// Number of batches that ran out of the device's memory, and whose requests ran in smaller batches.
    pub shrunk_batches: u64,
    /// Time that each instance spent on batches, by index.
    pub busy: Vec<Duration>,
    /// Time in the queue, in seconds.
    pub queue_delay: Histogram,
    /// Distribution of rows per batch.
    pub batch_size: Histogram,
    /// Time to the first response, in ms.
    pub first_response: Histogram,
    /// Requests admitted but not yet executing; [`crate::engine::Engine::snapshot`] sets this, elsewhere it is 0.
    pub pending: u64,
}

impl Statistics {
    /// Creates statistics with every counter at zero, so that rates are right from the first event.
    #[must_use]
    pub fn new(instances: usize) -> Self {
        Self { totals: Mutex::new(Snapshot::empty(instances)) }
    }

    /// Counts an execution and its requests.
    pub fn record_batch(&self, record: &BatchRecord<'_>) {
        self.totals.lock().add_batch(record);
    }

    /// Counts a request that was admitted and failed without executing in a batch: its time in the queue ran out, or
    /// its client left.
    pub fn record_failure(&self, reason: Reason, spent: Duration) {
        self.totals.lock().add_failure(reason, spent);
    }

    /// Counts a refused request, also as a failure with [`Reason::Rejected`]. Triton does not count refused requests at
    /// all, which hides an overload.
    pub fn record_refusal(&self, refusal: Refusal, spent: Duration) {
        let mut totals = self.totals.lock();
        totals.refusals[refusal as usize] += 1;
        totals.add_failure(Reason::Rejected, spent);
    }

    /// Counts a batch that ran out of the device's memory, and whose requests ran in smaller batches.
    pub fn record_shrunk_batch(&self) {
        self.totals.lock().shrunk_batches += 1;
    }

    /// Returns a copy of the statistics.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        self.totals.lock().clone()
    }
}

/// Index of a request's only response, the key of Triton's response statistics.
const FIRST_RESPONSE: &str = "0";

/// Statistics of responses; every request has exactly one.
struct Responses {
    compute_infer: Tally,
    compute_output: Tally,
    success: Tally,
    fail: Tally,
    cancel: Tally,
}

impl Snapshot {
    /// Returns the statistics of responses; `None` before the first request.
    fn responses(&self) -> Option<Responses> {
        let cancel = Tally { count: self.failures[Reason::Canceled as usize], ns: 0 };
        (self.success.count + self.fail.count > 0).then_some(Responses {
            compute_infer: self.compute_infer,
            compute_output: self.compute_output,
            success: self.success,
            fail: self.fail,
            cancel,
        })
    }

    fn empty(instances: usize) -> Self {
        Self {
            last_inference_ms: 0,
            inference_count: 0,
            execution_count: 0,
            success: Tally::default(),
            fail: Tally::default(),
            queue: Tally::default(),
            compute_input: Tally::default(),
            compute_infer: Tally::default(),
            compute_output: Tally::default(),
            batches: BTreeMap::new(),
            failures: [0; Reason::ALL.len()],
            refusals: [0; Refusal::ALL.len()],
            shrunk_batches: 0,
            busy: vec![Duration::ZERO; instances],
            queue_delay: Histogram::new(&QUEUE_DELAY_BOUNDS),
            batch_size: Histogram::new(&BATCH_SIZE_BOUNDS),
            first_response: Histogram::new(&FIRST_RESPONSE_BOUNDS),
            pending: 0,
        }
    }

    fn add_batch(&mut self, record: &BatchRecord<'_>) {
        self.add_busy(record);
        match record.outcome {
            BatchOutcome::Succeeded => self.add_success(record),
            BatchOutcome::Failed => {
                for request in record.requests {
                    self.add_failure(Reason::Backend, request.total);
                }
            }
            BatchOutcome::Retried => {}
        }
    }

    fn add_busy(&mut self, record: &BatchRecord<'_>) {
        if self.busy.len() <= record.instance {
            self.busy.resize(record.instance + 1, Duration::ZERO);
        }
        self.busy[record.instance] += record.compute_input + record.compute_infer + record.compute_output;
    }

    fn add_success(&mut self, record: &BatchRecord<'_>) {
        self.last_inference_ms = record.ended_ms;
        self.inference_count += record.rows as u64;
        self.execution_count += 1;
        self.batch_size.observe(record.rows as f64);
        let batch = self.batches.entry(record.rows).or_default();
        batch.compute_input.add(record.compute_input);
        batch.compute_infer.add(record.compute_infer);
        batch.compute_output.add(record.compute_output);
        for request in record.requests {
            self.success.add(request.total);
            self.queue.add(request.queue);
            self.compute_input.add(record.compute_input);
            self.compute_infer.add(record.compute_infer);
            self.compute_output.add(record.compute_output);
            self.queue_delay.observe(request.queue.as_secs_f64());
            self.first_response.observe(request.total.as_secs_f64() * 1e3);
        }
    }

    fn add_failure(&mut self, reason: Reason, spent: Duration) {
        self.fail.add(spent);
        self.failures[reason as usize] += 1;
    }
}

impl Tally {
    fn add(&mut self, duration: Duration) {
        self.count += 1;
        // A `u64` holds 584 years in nanoseconds.
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.ns = self.ns.saturating_add(ns);
    }
}

impl Reason {
    /// Every reason, in the order of [`Snapshot::failures`].
    pub const ALL: [Self; 4] = [Self::Rejected, Self::Canceled, Self::Backend, Self::Other];

    /// Triton's word for the reason.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Rejected => "REJECTED",
            Self::Canceled => "CANCELED",
            Self::Backend => "BACKEND",
            Self::Other => "OTHER",
        }
    }
}

impl Refusal {
    /// Every cause, in the order of [`Snapshot::refusals`].
    pub const ALL: [Self; 4] = [Self::QueueFull, Self::PredictedWait, Self::Deadline, Self::Draining];

    /// The cause as a metric label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::PredictedWait => "predicted_wait",
            Self::Deadline => "deadline",
            Self::Draining => "draining",
        }
    }
}

#[cfg(test)]
mod tests;

//! Runs batches on an instance and answers their requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_batcher::Work;

use super::context::InstanceContext;
use super::{Cost, JobReply, JobResult};
use crate::backend::{BatchOutput, Instance, ModelError, StagedRows, Started};
use crate::error::ServeError;
use crate::error::panic_text;
use crate::model::batch::OutputSlice;
use crate::model::job::Job;
use crate::statistics::{BatchOutcome, BatchRecord, RequestRecord};

/// An instance with its context.
pub(super) struct Runner {
    pub(super) context: Arc<InstanceContext>,
    pub(super) instance: Box<dyn Instance>,
}

/// Returns the time that each item of a batch spent in the queue.
pub(super) fn waits(work: &Work<Job, JobResult>) -> Vec<Duration> {
    let started = work.started();
    let wait = |arrival| started.saturating_duration_since(arrival);
    work.arrivals().map(wait).collect()
}

impl Runner {
    /// Runs a batch and answers every request in it.
    pub(super) fn serve(&mut self, work: Work<Job, JobResult>) {
        let (started, waits) = (work.started(), waits(&work));
        let context = Arc::clone(&self.context);
        let _taken = context.take(&work);
        let (answer, elapsed) = self.attempt(work.items());
        match answer {
            Ok(answer) => {
                let outcomes = context.succeed(work.items(), &waits, answer);
                work.answer_after(outcomes, Some(started.elapsed()));
            }
            Err(error) => self.answer_failed(work, &waits, error, elapsed),
        }
    }

    /// Answers the requests of a batch that failed, after retries in smaller batches. If the device is out of memory,
    /// later batches are limited to the size that ran. `elapsed` is the duration of the failed run, for the statistics;
    /// it does not predict the duration of other batches of this size.
    pub(super) fn answer_failed(
        &mut self,
        work: Work<Job, JobResult>,
        waits: &[Duration],
        error: ServeError,
        elapsed: Duration,
    ) {
        let is_too_large = matches!(error, ServeError::OutOfMemory(_));
        let outcomes = self.recover(work.items(), waits, error, elapsed);
        if let Some(fits) = largest_fitting(&outcomes).filter(|_| is_too_large) {
            self.context.statistics.record_shrunk_batch();
            self.context.log_too_large(work.weight(), fits, now());
            work.ran_out_of_memory(fits);
        }
        work.answer_after(outcomes, None);
    }

    /// Runs the jobs as one batch. If that fails, runs each job alone, so that one bad request does not fail the
    /// others. If the device is out of memory, runs the batch in halves, because a smaller batch may fit.
    fn run(&mut self, jobs: &[Job], waits: &[Duration]) -> Vec<JobResult> {
        let (answer, elapsed) = self.attempt(jobs);
        match answer {
            Ok(answer) => self.context.succeed(jobs, waits, answer),
            Err(error) => self.recover(jobs, waits, error, elapsed),
        }
    }

    /// Retries jobs that failed together: in halves if memory ran out, otherwise one by one. A job that failed alone
    /// gets the error. `elapsed` is the duration of the failed run, for the statistics.
    fn recover(&mut self, jobs: &[Job], waits: &[Duration], error: ServeError, elapsed: Duration) -> Vec<JobResult> {
        if jobs.len() == 1 {
            self.context.record(jobs, waits, elapsed, BatchOutcome::Failed);
            let error = self.context.interface.blame(error);
            self.context.log_failure(&error, now());
            return vec![Err(error)];
        }
        self.context.record(jobs, waits, elapsed, BatchOutcome::Retried);
        let no_memory = matches!(error, ServeError::OutOfMemory(_));
        let part = if no_memory { jobs.len().div_ceil(2) } else { 1 };
        jobs.chunks(part).zip(waits.chunks(part)).flat_map(|(jobs, waits)| self.run(jobs, waits)).collect()
    }

    fn attempt(&mut self, jobs: &[Job]) -> (Result<BatchOutput, ServeError>, Duration) {
        let started = now();
        let context = Arc::clone(&self.context);
        let _run = context.begin(jobs, started);
        let answer = self.begin_and_finish(jobs);
        (answer, started.elapsed())
    }

    fn begin_and_finish(&mut self, jobs: &[Job]) -> Result<BatchOutput, ServeError> {
        let batch = self.context.interface.gather(jobs)?;
        let run = AssertUnwindSafe(|| self.instance.run(&batch));
        let answer = catch_unwind(run).map_err(|panic| panicked(panic.as_ref()))??;
        self.context.interface.check(&answer, batch.rows)?;
        Ok(answer)
    }

    /// Copies the inputs of a queued job ahead; `None` if the instance does not stage them.
    pub(super) fn stage(&mut self, job: &Job, most: usize) -> Option<StagedRows> {
        let request = self.context.interface.gather(slice::from_ref(job)).ok()?;
        let stage = AssertUnwindSafe(|| self.instance.stage(&request, most));
        catch_unwind(stage).ok().flatten()
    }

    /// Starts a batch of the jobs, of which some are staged; returns it with the number of its rows.
    pub(super) fn begin(
        &mut self,
        jobs: &[Job],
        staged: &[Option<StagedRows>],
    ) -> Result<(Started, usize), ServeError> {
        let mut batch = self.context.interface.gather(jobs)?;
        for (request, place) in batch.requests.iter_mut().zip(staged) {
            request.staged = *place;
        }
        let start = AssertUnwindSafe(|| self.instance.start(&batch));
        let started = catch_unwind(start).map_err(|panic| panicked(panic.as_ref()))??;
        Ok((started, batch.rows))
    }
}

impl InstanceContext {
    pub(super) fn succeed(&self, jobs: &[Job], waits: &[Duration], answer: BatchOutput) -> Vec<JobResult> {
        let rows = jobs.iter().map(|job| job.rows).sum();
        let compute = answer.timing;
        let spent = compute.input + compute.infer + compute.output;
        let requests = requests(waits, spent);
        self.statistics.record_batch(&BatchRecord {
            instance: self.index,
            rows,
            requests: &requests,
            compute_input: compute.input,
            compute_infer: compute.infer,
            compute_output: compute.output,
            outcome: BatchOutcome::Succeeded,
            ended_ms: unix_ms(),
        });
        let answer = Arc::new(answer);
        let mut first_row = 0;
        let reply = |(index, (job, &queue)): (usize, (&Job, &Duration))| {
            let slice = OutputSlice {
                answer: Arc::clone(&answer),
                index,
                first_row,
                rows: job.rows,
                batch_rows: rows,
                length: job.length,
            };
            first_row += job.rows;
            Ok(JobReply { slice, cost: Cost { queue, steps: compute, batch_rows: rows } })
        };
        jobs.iter().zip(waits).enumerate().map(reply).collect()
    }

    fn record(&self, jobs: &[Job], waits: &[Duration], spent: Duration, outcome: BatchOutcome) {
        let requests = requests(waits, spent);
        self.statistics.record_batch(&BatchRecord {
            instance: self.index,
            rows: jobs.iter().map(|job| job.rows).sum(),
            requests: &requests,
            compute_input: Duration::ZERO,
            compute_infer: spent,
            compute_output: Duration::ZERO,
            outcome,
            ended_ms: unix_ms(),
        });
    }
}

/// Returns the durations of a batch's requests if the batch took `spent`.
fn requests(waits: &[Duration], spent: Duration) -> Vec<RequestRecord> {
    let record = |&queue| RequestRecord { queue, total: queue + spent };
    waits.iter().map(record).collect()
}

/// Returns the rows of the largest batch that ran, among the retries of a batch that ran out of memory. Returns `None`
/// if the batch was not too large: it had only one request, or one of its requests takes too much memory even alone.
fn largest_fitting(outcomes: &[JobResult]) -> Option<usize> {
    let fits = outcomes.iter().flatten().map(|reply| reply.cost.batch_rows).max();
    let is_any_too_large = outcomes.iter().any(|outcome| matches!(outcome, Err(ServeError::OutOfMemory(_))));
    match (fits, is_any_too_large) {
        _ if outcomes.len() < 2 => None,
        (Some(fits), false) => Some(fits),
        // The device has no memory even for one request.
        (None, true) => Some(1),
        (Some(_), true) | (None, false) => None,
    }
}

impl From<ModelError> for ServeError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Failed(message) => Self::Model(message),
            ModelError::Refused(message) => Self::Invalid(message),
            ModelError::OutOfMemory(_) => Self::OutOfMemory(error.to_string()),
        }
    }
}

/// Returns the error of a model that panicked.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> ServeError {
    let text = panic_text(panic);
    ServeError::Model(format!("the model panicked: {text}"))
}

#[expect(clippy::disallowed_methods, reason = "an instance's thread owns the clock of its batches")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "statistics carry the wall-clock time of a batch")]
fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

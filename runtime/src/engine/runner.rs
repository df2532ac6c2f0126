//! Runs batches on an instance and answers their requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_batcher::Work;

use super::instance::Seat;
use super::{Cost, Outcome, Reply};
use crate::backend::{Answer, Instance, ModelError};
use crate::batch::Share;
use crate::error::ServeError;
use crate::job::Job;
use crate::statistics::{self, BatchRecord, RequestRecord};

/// An instance in its seat.
pub(super) struct Runner {
    pub(super) seat: Seat,
    pub(super) instance: Box<dyn Instance>,
}

impl Runner {
    /// Runs a batch and answers every request of it.
    pub(super) fn serve(&mut self, work: Work<Job, Outcome>) {
        let started = work.started();
        let waits: Vec<Duration> = work
            .arrivals()
            .map(|arrival| started.saturating_duration_since(arrival))
            .collect();
        let outcomes = self.run(work.items(), &waits);
        // What a failing batch took says nothing of others of its size.
        let telling = outcomes.iter().all(Result::is_ok);
        let elapsed = telling.then(|| started.elapsed());
        work.answer_after(outcomes, elapsed);
    }

    /// Runs the jobs as one batch. If that fails, runs each alone, so that one bad request harms
    /// no neighbour; after an out-of-memory, in halves, because a smaller batch may fit.
    fn run(&mut self, jobs: &[Job], waits: &[Duration]) -> Vec<Outcome> {
        let (answer, elapsed) = self.attempt(jobs);
        match answer {
            Ok(answer) => self.succeed(jobs, waits, answer),
            Err(error) if jobs.len() == 1 => {
                self.record(jobs, waits, elapsed, statistics::Outcome::Failed);
                vec![Err(error)]
            }
            Err(ServeError::OutOfMemory(_)) => {
                self.record(jobs, waits, elapsed, statistics::Outcome::Retried);
                let half = jobs.len() / 2;
                let mut outcomes = self.run(&jobs[..half], &waits[..half]);
                outcomes.extend(self.run(&jobs[half..], &waits[half..]));
                outcomes
            }
            Err(_) => {
                self.record(jobs, waits, elapsed, statistics::Outcome::Retried);
                let pairs = jobs.chunks(1).zip(waits.chunks(1));
                pairs.flat_map(|(job, wait)| self.run(job, wait)).collect()
            }
        }
    }

    fn attempt(&mut self, jobs: &[Job]) -> (Result<Answer, ServeError>, Duration) {
        let started = now();
        let answer = self.seat.interface.gather(jobs).and_then(|batch| {
            let run = AssertUnwindSafe(|| self.instance.run(&batch));
            let answer = match catch_unwind(run) {
                Ok(answer) => answer?,
                Err(panic) => {
                    let text = panic_text(panic.as_ref());
                    return Err(ServeError::Model(format!("the model panicked: {text}")));
                }
            };
            self.seat.interface.check(&answer, batch.rows)?;
            Ok(answer)
        });
        (answer, started.elapsed())
    }

    fn succeed(&self, jobs: &[Job], waits: &[Duration], answer: Answer) -> Vec<Outcome> {
        let rows = jobs.iter().map(|job| job.rows).sum();
        let compute = answer.timing;
        let spent = compute.input + compute.infer + compute.output;
        let requests: Vec<RequestRecord> = waits
            .iter()
            .map(|&queue| RequestRecord {
                queue,
                total: queue + spent,
            })
            .collect();
        self.seat.statistics.record_batch(&BatchRecord {
            instance: self.seat.index,
            rows,
            requests: &requests,
            compute_input: compute.input,
            compute_infer: compute.infer,
            compute_output: compute.output,
            outcome: statistics::Outcome::Succeeded,
            ended_ms: unix_ms(),
        });
        let answer = Arc::new(answer);
        let mut first_row = 0;
        let share = |(index, (job, &queue)): (usize, (&Job, &Duration))| {
            let share = Share {
                answer: Arc::clone(&answer),
                index,
                first_row,
                rows: job.rows,
                batch_rows: rows,
                length: job.length,
            };
            first_row += job.rows;
            Ok(Reply {
                share,
                cost: Cost {
                    queue,
                    steps: compute,
                    batch_rows: rows,
                },
            })
        };
        jobs.iter().zip(waits).enumerate().map(share).collect()
    }

    fn record(
        &self,
        jobs: &[Job],
        waits: &[Duration],
        spent: Duration,
        outcome: statistics::Outcome,
    ) {
        let requests: Vec<RequestRecord> = waits
            .iter()
            .map(|&queue| RequestRecord {
                queue,
                total: queue + spent,
            })
            .collect();
        self.seat.statistics.record_batch(&BatchRecord {
            instance: self.seat.index,
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

impl From<ModelError> for ServeError {
    fn from(error: ModelError) -> Self {
        match error {
            ModelError::Failed(message) => Self::Model(message),
            ModelError::OutOfMemory(_) => Self::OutOfMemory(error.to_string()),
        }
    }
}

/// What a panic says of itself.
pub(super) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

#[expect(
    clippy::disallowed_methods,
    reason = "an instance's thread owns the clock of its batches"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "statistics carry the wall-clock time of a batch"
)]
fn unix_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_millis() as u64)
}

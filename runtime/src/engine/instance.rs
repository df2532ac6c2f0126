//! An instance's thread: pull a batch when free, run it, hand out the answers.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_batcher::{Batcher, Puller, Work};

use super::warmup::{WarmUpPlan, warm_up};
use super::{Cost, Outcome, Reply};
use crate::backend::{Answer, Device, Instance, LoadError, Model, ModelError};
use crate::batch::Share;
use crate::error::ServeError;
use crate::interface::Interface;
use crate::job::Job;
use crate::statistics::{self, BatchRecord, RequestRecord, Statistics};

/// Where an instance will sit.
pub(super) struct Seat {
    pub(super) index: usize,
    pub(super) device: Device,
    pub(super) interface: Arc<Interface>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) batcher: Batcher<Job, Outcome>,
}

impl Seat {
    /// Makes and warms the instance on a thread of its own, where it stays: OpenMP's and cuDNN's
    /// state belongs to the thread. Returns when it is ready.
    pub(super) fn start(
        self,
        model: Arc<dyn Model>,
        plan: Arc<WarmUpPlan>,
    ) -> Result<JoinHandle<()>, LoadError> {
        let (ready, wait) = sync_channel(1);
        let name = format!("{}/{}", self.interface.model, self.index);
        let thread = std::thread::Builder::new()
            .name(name)
            .spawn(move || self.run(model.as_ref(), &plan, &ready))
            .map_err(|error| LoadError::Device(format!("cannot start a thread: {error}")))?;
        match wait.recv() {
            Ok(Ok(())) => Ok(thread),
            Ok(Err(error)) => {
                let _ = thread.join();
                Err(error)
            }
            Err(_) => Err(LoadError::Warmup(match thread.join() {
                Err(panic) => format!("the instance panicked: {}", panic_text(panic.as_ref())),
                Ok(()) => "the instance ended before it was ready".to_owned(),
            })),
        }
    }

    fn run(self, model: &dyn Model, plan: &WarmUpPlan, ready: &SyncSender<Result<(), LoadError>>) {
        let made = model.instance(self.device).and_then(|mut instance| {
            warm_up(plan, &self.interface, instance.as_mut(), &self.batcher)?;
            Ok(instance)
        });
        // The receiver waits for exactly this message.
        match made {
            Ok(instance) => {
                // Before anyone can submit, and close the queue again: items that come while there
                // is no puller are lost.
                let puller = self.batcher.puller();
                let _ = ready.send(Ok(()));
                Runner {
                    seat: self,
                    instance,
                }
                .serve(puller);
            }
            Err(error) => {
                let _ = ready.send(Err(error));
            }
        }
    }
}

/// Whether requests come together, as the last batch shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    Lone,
    Many,
}

impl Crowd {
    fn of(items: usize) -> Self {
        if items > 1 { Self::Many } else { Self::Lone }
    }
}

struct Runner {
    seat: Seat,
    instance: Box<dyn Instance>,
}

impl Runner {
    fn serve(&mut self, mut puller: Puller<Job, Outcome>) {
        let mut crowd = Crowd::Lone;
        while let Some(work) = self.next(&mut puller, crowd) {
            crowd = Crowd::of(work.count());
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
    }

    /// On the processor the device is what the reactor needs too: where both want the same core, and
    /// requests come together, the reactor goes first, and what lies in its sockets joins the batch.
    /// An idle core loses nothing by it, and a lone client is never made to wait.
    fn next(&self, puller: &mut Puller<Job, Outcome>, crowd: Crowd) -> Option<Work<Job, Outcome>> {
        match (self.seat.device, crowd) {
            (Device::Cpu, Crowd::Many) => std::thread::yield_now(),
            (Device::Cpu, Crowd::Lone) | (Device::Cuda(_), _) => {}
        }
        puller.pull()
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

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
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

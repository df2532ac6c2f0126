//! Serves on a device that works asynchronously, by starting one batch ahead.
//!
//! ```text
//!   instance thread   pull 1, start 1, pull 2, start 2 ─┐       pull 3, start 3 …
//!   answer thread     wait 1 ───────────► answer 1 ◄────┘ wait 2 ───────────► answer 2 …
//! ```
//!
//! A batch is pulled as late as possible without the device becoming idle, and is started while the previous batch
//! runs. The two threads synchronise at each batch, so at most one batch is started ahead.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_batcher::{Work, Worker};

use super::JobResult;
use super::context::InstanceContext;
use super::runner::{Runner, now, panicked, waits};
use super::watch::{RunGuard, TakenGuard};
use crate::backend::{BatchOutput, Started};
use crate::error::ServeError;
use crate::job::Job;

/// A batch that was started and is not answered yet.
struct BatchInFlight<'a> {
    work: Work<Job, JobResult>,
    taken: TakenGuard<'a>,
    run: RunGuard<'a>,
    waits: Vec<Duration>,
    rows: usize,
    started: Started,
    begun: Instant,
}

/// The time to pull the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefetch {
    /// Time at which the device will be free.
    free_at: Instant,
    /// Time before `free_at` at which the batch is pulled.
    prepare: Duration,
}

/// One part in `MARGIN` of a batch's expected duration is a margin for error: the next batch is pulled that much
/// earlier. Requests that arrive during the margin miss the batch, but without it the device would be idle whenever a
/// batch ends early.
const MARGIN: u32 = 8;

impl Prefetch {
    /// Computes the pull time after a batch that the device began at `begun` and whose start took `preparing`.
    fn after(begun: Instant, expected: Duration, preparing: Duration) -> Self {
        Self { free_at: begun + expected, prepare: preparing + expected / MARGIN }
    }
}

/// Serves until the queue is closed and empty.
pub(super) fn serve(runner: &Mutex<Runner>, context: &InstanceContext, worker: Worker<Job, JobResult>) {
    // The channel has no buffer: a batch is handed over when the previous one is answered.
    let (hand_over, under_way) = sync_channel(0);
    std::thread::scope(|scope| {
        scope.spawn(move || answer_all(runner, context, under_way));
        start_all(runner, context, worker, &hand_over);
        drop(hand_over);
    });
}

fn start_all<'a>(
    runner: &Mutex<Runner>,
    context: &'a InstanceContext,
    mut worker: Worker<Job, JobResult>,
    hand_over: &SyncSender<BatchInFlight<'a>>,
) {
    let mut prefetch: Option<Prefetch> = None;
    loop {
        let work = match prefetch {
            None => worker.pull(),
            Some(Prefetch { free_at, prepare }) => worker.pull_ahead(free_at, prepare),
        };
        let Some(work) = work else { return };
        let (expected, begun) = (work.expected(), now());
        let Some(batch) = start(runner, context, work, begun) else {
            continue;
        };
        let preparing = begun.elapsed();
        if hand_over.send(batch).is_err() {
            return;
        }
        prefetch = Some(Prefetch::after(now(), expected, preparing));
    }
}

/// Starts a batch; `None` if it failed at once, in which case its requests are already answered.
fn start<'a>(
    runner: &Mutex<Runner>,
    context: &'a InstanceContext,
    work: Work<Job, JobResult>,
    begun: Instant,
) -> Option<BatchInFlight<'a>> {
    let waits = waits(&work);
    let (taken, run) = (context.take(&work), context.begin(work.items(), begun));
    let mut runner = runner.lock();
    match runner.begin(work.items()) {
        Ok((started, rows)) => Some(BatchInFlight { work, taken, run, waits, rows, started, begun }),
        Err(error) => {
            drop(run);
            let outcomes = runner.recover(work.items(), &waits, error, begun.elapsed());
            drop(runner);
            work.answer_after(outcomes, None);
            None
        }
    }
}

fn answer_all(runner: &Mutex<Runner>, context: &InstanceContext, under_way: Receiver<BatchInFlight<'_>>) {
    let mut free_since: Option<Instant> = None;
    for batch in under_way {
        free_since = Some(answer(runner, context, batch, free_since));
    }
}

/// Waits for a batch, answers its requests, and returns the time at which the device finished it.
fn answer(
    runner: &Mutex<Runner>,
    context: &InstanceContext,
    batch: BatchInFlight<'_>,
    free_since: Option<Instant>,
) -> Instant {
    let BatchInFlight { work, taken: _taken, run, waits, rows, started, begun } = batch;
    let finished = finish(context, started, rows);
    drop(run);
    let ended = now();
    // Time that the device still spent on the previous batch does not count for this one.
    let elapsed = ended.saturating_duration_since(free_since.map_or(begun, |free| free.max(begun)));
    match finished {
        Ok(answer) => {
            let outcomes = context.succeed(work.items(), &waits, answer);
            work.answer_after(outcomes, Some(elapsed));
        }
        Err(error) => {
            let outcomes = runner.lock().recover(work.items(), &waits, error, elapsed);
            work.answer_after(outcomes, None);
        }
    }
    ended
}

fn finish(context: &InstanceContext, started: Started, rows: usize) -> Result<BatchOutput, ServeError> {
    let answer = match catch_unwind(AssertUnwindSafe(|| started.finish())) {
        Ok(answer) => answer?,
        Err(panic) => return Err(panicked(panic.as_ref())),
    };
    context.interface.check(&answer, rows)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_batch_is_pulled_a_little_before_the_device_is_free() {
        let (begun, ms) = (now(), Duration::from_millis);
        let prefetch = Prefetch::after(begun, ms(80), ms(3));
        assert_eq!(prefetch.free_at, begun + ms(80));
        assert_eq!(prefetch.prepare, ms(13));
    }
}

//! Serves on a device that works asynchronously, by starting one batch ahead.
//!
//! ```text
//!   instance thread   pull 1, start 1, pull 2, start 2 ─┐       pull 3, start 3 …
//!   answer thread     wait 1 ───────────► answer 1 ◄────┘ wait 2 ───────────► answer 2 …
//! ```
//!
//! A batch is pulled as late as possible without the device becoming idle, and is started while the previous batch
//! runs. Until then the instance thread copies the inputs of the queued requests. A batch is not started ahead if it
//! runs sooner together with the next requests of the clients that are answered meanwhile; the batcher decides this.
//! The two threads synchronise at each batch, so at most one batch is started ahead. The instance thread itself answers
//! a lone request whose run is short.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use weir_batcher::{AsyncDevice, Work, Worker};

use super::JobResult;
use super::context::InstanceContext;
use super::runner::{Runner, now, panicked, waits};
use super::stage::InputStager;
use super::watch::{RunGuard, TakenGuard};
use crate::backend::{BatchOutput, Started};
use crate::error::ServeError;
use crate::model::job::Job;

/// A batch that was started and is not answered yet.
struct BatchInFlight<'a> {
    work: Work<Job, JobResult>,
    taken: TakenGuard<'a>,
    run: RunGuard<'a>,
    waits: Vec<Duration>,
    rows: usize,
    started: Started,
    begun: Instant,
    /// Time that the start of the batch took on this thread.
    preparing: Duration,
    /// Part of `preparing` in which the inputs that were not staged were copied; zero if the time of a row is not
    /// known.
    copying: Duration,
}

/// Times of the batch that was answered last.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    /// Time at which the device had finished the batch; `None` before the first batch.
    at: Option<Instant>,
    /// Time in which the batch's inputs were gathered, before the device could begin, without the time of copies that
    /// could have been staged.
    inputs: Duration,
}

/// The time to pull the next batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Prefetch {
    device: AsyncDevice,
    /// Time before `device.free_at` at which the batch is pulled.
    prepare: Duration,
}

/// One part in `MARGIN` of a batch's expected duration is a margin for error: the next batch is pulled that much
/// earlier. Requests that arrive during the margin miss the batch, but without it the device would be idle whenever a
/// batch ends early.
const MARGIN: u32 = 8;

impl Prefetch {
    /// Computes the pull time after a batch that the host began at `begun`. The device runs the first part of a batch
    /// while the host still launches the rest. So only the inputs, and the time by which the launch is longer than the
    /// run, must be prepared before the device is free.
    fn after(begun: Instant, start: StartTimes, answered: Answered) -> Self {
        let StartTimes { expected, preparing, copying, row } = start;
        let inputs = answered.inputs.min(preparing.saturating_sub(copying));
        let launch = preparing.saturating_sub(inputs + copying);
        let device_begins = answered.at.map_or(begun, |at| at.max(begun + inputs + copying));
        Self {
            device: AsyncDevice { free_at: device_begins + expected, inputs, launch, row },
            prepare: inputs + launch.saturating_sub(expected) + expected / MARGIN,
        }
    }
}

/// Times of the start of a batch.
#[derive(Clone, Copy, Debug, Default)]
struct StartTimes {
    /// Time that the batch will probably take on the device.
    expected: Duration,
    /// Time of the start on this thread: inputs and launch.
    preparing: Duration,
    /// Part of `preparing` in which the inputs that were not staged were copied.
    copying: Duration,
    /// Time in which the inputs of one row are staged; zero if it is not known.
    row: Duration,
}

/// Returns true if the instance thread itself waits for a batch, instead of the answer thread, because waking that
/// thread would take about as long as the run. No batch is started ahead meanwhile, which matters only if several
/// requests arrive together.
fn is_brief(requests: usize, expected: Duration) -> bool {
    requests == 1 && !expected.is_zero() && expected <= BRIEF
}

/// Longest run of a lone request that the instance thread waits for. On an H200 a lone request of two additions took
/// 158 µs with a run of 24 µs, so most of the time went to copies and changes of thread. The gain was not measured; a
/// run this short delays a request that arrives meanwhile by little.
const BRIEF: Duration = Duration::from_micros(150);

/// Serves until the queue is closed and empty.
pub(super) fn serve(runner: &Mutex<Runner>, context: &InstanceContext, worker: Worker<Job, JobResult>) {
    // The channel has no buffer: a batch is handed over when the previous one is answered.
    let (hand_over, under_way) = sync_channel(0);
    let answered = Mutex::new(Answered::default());
    std::thread::scope(|scope| {
        scope.spawn(|| answer_all(runner, context, under_way, &answered));
        start_all(runner, context, worker, (&hand_over, &answered));
        drop(hand_over);
    });
}

fn start_all<'a>(
    runner: &Mutex<Runner>,
    context: &'a InstanceContext,
    mut worker: Worker<Job, JobResult>,
    (hand_over, answered): (&SyncSender<BatchInFlight<'a>>, &Mutex<Answered>),
) {
    let mut prefetch: Option<Prefetch> = None;
    let mut stager = InputStager::new(runner);
    loop {
        let work = match prefetch {
            None => worker.pull(),
            Some(Prefetch { device, prepare }) => worker.pull_ahead(device, prepare, &mut stager),
        };
        let Some(work) = work else { return };
        let (expected, begun) = (work.expected(), now());
        let Some(batch) = start((runner, context), work, &mut stager, begun) else {
            continue;
        };
        let times = StartTimes { expected, preparing: batch.preparing, copying: batch.copying, row: stager.row() };
        if is_brief(batch.work.count(), expected) {
            prefetch = Some(Prefetch::after(begun, times, *answered.lock()));
            answer(runner, context, batch, answered);
            continue;
        }
        if hand_over.send(batch).is_err() {
            return;
        }
        prefetch = Some(Prefetch::after(begun, times, *answered.lock()));
    }
}

/// Starts a batch; `None` if it failed at once, in which case its requests are already answered.
fn start<'a>(
    (runner, context): (&Mutex<Runner>, &'a InstanceContext),
    work: Work<Job, JobResult>,
    stager: &mut InputStager<'_>,
    begun: Instant,
) -> Option<BatchInFlight<'a>> {
    let waits = waits(&work);
    let (taken, run) = (context.take(&work), context.begin(work.items(), begun));
    let staged = stager.take(&work);
    let mut runner = runner.lock();
    match runner.begin(work.items(), &staged) {
        Ok((started, rows)) => {
            let preparing = begun.elapsed();
            let copying = stager.copying(work.items(), &staged).min(preparing);
            Some(BatchInFlight { work, taken, run, waits, rows, started, begun, preparing, copying })
        }
        Err(error) => {
            drop(run);
            runner.answer_failed(work, &waits, error, begun.elapsed());
            None
        }
    }
}

fn answer_all(
    runner: &Mutex<Runner>,
    context: &InstanceContext,
    under_way: Receiver<BatchInFlight<'_>>,
    answered: &Mutex<Answered>,
) {
    for batch in under_way {
        answer(runner, context, batch, answered);
    }
}

/// Waits for a batch, and answers its requests.
fn answer(runner: &Mutex<Runner>, context: &InstanceContext, batch: BatchInFlight<'_>, answered: &Mutex<Answered>) {
    let BatchInFlight { work, taken: _taken, run, waits, rows, started, begun, preparing, copying } = batch;
    let finished = finish(context, started, rows);
    drop(run);
    let ended = now();
    let inputs = finished.as_ref().map_or(Duration::ZERO, |answer| answer.timing.input).min(preparing);
    let previous =
        std::mem::replace(&mut *answered.lock(), Answered { at: Some(ended), inputs: inputs.saturating_sub(copying) });
    let elapsed = device_time(previous, begun + inputs, ended).max(preparing - inputs);
    match finished {
        Ok(answer) => {
            let outcomes = context.succeed(work.items(), &waits, answer);
            work.answer_after(outcomes, Some(elapsed));
        }
        Err(error) => runner.lock().answer_failed(work, &waits, error, elapsed),
    }
}

/// Returns the time that the device spent on a batch whose inputs were ready at `ready`. Time that the device still
/// spent on the previous batch does not count.
fn device_time(previous: Answered, ready: Instant, ended: Instant) -> Duration {
    ended.saturating_duration_since(previous.at.map_or(ready, |at| at.max(ready)))
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
    fn only_a_lone_request_with_a_known_short_run_is_brief() {
        assert!(is_brief(1, BRIEF));
        assert!(!is_brief(2, BRIEF) && !is_brief(1, Duration::ZERO) && !is_brief(1, ms(1)));
    }

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_next_batch_is_pulled_before_the_device_is_free_by_a_margin_and_its_inputs() {
        let begun = now();
        let times = |expected| StartTimes { expected, preparing: ms(30), ..StartTimes::default() };
        let answered = Answered { at: None, inputs: ms(3) };
        let prefetch = Prefetch::after(begun, times(ms(80)), answered);
        let device = AsyncDevice { free_at: begun + ms(80), inputs: ms(3), launch: ms(27), row: Duration::ZERO };
        assert_eq!(prefetch.device, device);
        assert_eq!(prefetch.prepare, ms(13), "the launch takes less time than the run, and is hidden");
        let prefetch = Prefetch::after(begun, times(ms(8)), answered);
        assert_eq!(prefetch.prepare, ms(3 + 19 + 1), "the launch takes 19 ms longer than the run");
    }

    #[test]
    fn copies_that_can_be_staged_do_not_count_as_preparation() {
        let begun = now();
        let times = StartTimes { expected: ms(80), preparing: ms(30), copying: ms(12), row: ms(2) };
        let prefetch = Prefetch::after(begun, times, Answered { at: Some(begun), inputs: ms(3) });
        let device = AsyncDevice { free_at: begun + ms(95), inputs: ms(3), launch: ms(15), row: ms(2) };
        assert_eq!(prefetch, Prefetch { device, prepare: ms(13) });
    }

    #[test]
    fn the_device_begins_when_the_previous_batch_is_done_and_the_inputs_are_ready() {
        let begun = now();
        let times = StartTimes { expected: ms(80), preparing: ms(30), ..StartTimes::default() };
        let free_at = |at| Prefetch::after(begun, times, Answered { at, inputs: ms(3) }).device.free_at;
        assert_eq!(free_at(Some(begun + ms(20))), begun + ms(100));
        assert_eq!(free_at(Some(begun)), begun + ms(83));
        let previous = Answered { at: Some(begun + ms(20)), inputs: ms(3) };
        assert_eq!(device_time(previous, begun + ms(3), begun + ms(100)), ms(80));
        assert_eq!(device_time(previous, begun + ms(23), begun + ms(100)), ms(77));
    }
}

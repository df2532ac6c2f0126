//! The batches that one instance runs: one, or two if one is started ahead.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_batcher::BatchCallers;

use crate::engine::JobResult;
use crate::error::ServeError;
use crate::model::job::Job;

/// The batches that one instance runs.
#[derive(Default)]
pub(in crate::engine) struct InstanceWatch {
    state: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    runs: Vec<Run>,
    /// Batches that were pulled from the queue and are not answered yet, with a handle to answer their callers.
    taken: Vec<(u64, BatchCallers<Job, JobResult>)>,
    next: u64,
    longest: Duration,
}

/// A run of the model on a whole batch, or on a part of a batch that failed.
struct Run {
    number: u64,
    since: Instant,
    rows: usize,
    thread: RunThread,
    suspicion: Suspicion,
}

/// The kind of thread that a run blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunThread {
    /// The instance's own thread.
    Instance,
    /// A thread that serves connections, which cannot make progress meanwhile.
    Reactor,
}

/// A run that exceeds its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StuckRun {
    pub(super) age: Duration,
    pub(super) rows: usize,
    pub(super) thread: RunThread,
}

/// The outcome of the checks of a run so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    None,
    /// The last check found the run over the limit.
    Once,
    /// Two checks in a row found the run over the limit.
    Stuck,
}

/// A run in progress, which ends when this guard is dropped.
pub(in crate::engine) struct RunGuard<'a> {
    watch: &'a InstanceWatch,
    number: u64,
}

/// A batch that was pulled from the queue, which is answered when this guard is dropped.
pub(in crate::engine) struct TakenGuard<'a> {
    watch: &'a InstanceWatch,
    number: u64,
}

impl InstanceWatch {
    /// Records a batch that was pulled from the queue.
    pub(in crate::engine) fn take(&self, callers: BatchCallers<Job, JobResult>) -> TakenGuard<'_> {
        let mut state = self.state.lock();
        let number = state.number();
        state.taken.push((number, callers));
        TakenGuard { watch: self, number }
    }

    /// Records a run that begins.
    pub(in crate::engine) fn begin(&self, rows: usize, since: Instant) -> RunGuard<'_> {
        let mut state = self.state.lock();
        let number = state.number();
        state.runs.push(Run { number, since, rows, thread: RunThread::current(), suspicion: Suspicion::None });
        RunGuard { watch: self, number }
    }

    /// Age of the instance's oldest run; `None` if none runs.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock();
        let oldest = state.runs.iter().map(|run| run.since).min()?;
        Some(now.saturating_duration_since(oldest))
    }

    /// Duration of the longest finished run.
    pub(super) fn longest(&self) -> Duration {
        self.state.lock().longest
    }

    /// Checks the runs, and returns one that was over the limit at this check and the previous one.
    pub(super) fn find_stuck(&self, now: Instant, limit: Duration) -> Option<StuckRun> {
        let mut state = self.state.lock();
        let mut stuck = None;
        for run in &mut state.runs {
            let age = now.saturating_duration_since(run.since);
            run.suspicion = run.suspicion.after(age, limit);
            if run.suspicion == Suspicion::Stuck {
                let (rows, thread) = (run.rows, run.thread);
                stuck = stuck.max(Some(StuckRun { age, rows, thread }));
            }
        }
        stuck
    }

    /// True while a run is in progress that is not stuck.
    pub(super) fn is_at_work(&self) -> bool {
        let state = self.state.lock();
        let mut runs = state.runs.iter();
        runs.any(|run| run.suspicion != Suspicion::Stuck)
    }

    /// True while a run is stuck.
    pub(in crate::engine) fn is_stuck(&self) -> bool {
        let state = self.state.lock();
        state.runs.iter().any(|run| run.suspicion == Suspicion::Stuck)
    }

    /// Answers all requests in the instance's batches with an error.
    pub(super) fn answer_callers(&self, error: &ServeError) {
        for (_, callers) in &self.state.lock().taken {
            callers.answer(|| Err(error.clone()));
        }
    }
}

impl RunThread {
    /// Returns the kind of the current thread: the instance's own thread has no reactor.
    fn current() -> Self {
        match Handle::try_current() {
            Ok(_) => Self::Reactor,
            Err(_) => Self::Instance,
        }
    }
}

impl Suspicion {
    fn after(self, age: Duration, limit: Duration) -> Self {
        match self {
            _ if age <= limit => Self::None,
            Self::None => Self::Once,
            Self::Once | Self::Stuck => Self::Stuck,
        }
    }
}

impl WatchState {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

impl Drop for RunGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.watch.state.lock();
        let Some(at) = state.runs.iter().position(|run| run.number == self.number) else {
            return;
        };
        let run = state.runs.swap_remove(at);
        state.longest = state.longest.max(run.since.elapsed());
    }
}

impl Drop for TakenGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.watch.state.lock();
        state.taken.retain(|(number, _)| *number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_records_whether_its_thread_serves_connections() {
        assert_eq!(RunThread::current(), RunThread::Reactor);
        let own = std::thread::spawn(RunThread::current).join();
        assert_eq!(own.unwrap(), RunThread::Instance);
    }
}

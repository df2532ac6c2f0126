//! The batches that one instance runs: one, or two where one is started ahead.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use weir_batcher::Recall;

use crate::engine::JobResult;
use crate::error::ServeError;
use crate::job::Job;

/// The batches that one instance runs.
#[derive(Default)]
pub(in crate::engine) struct InstanceWatch {
    state: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    runs: Vec<Run>,
    /// Batches taken from the queue and not yet answered, with the way to their callers.
    taken: Vec<(u64, Recall<Job, JobResult>)>,
    next: u64,
    longest: Duration,
}

/// A run of the model, on a whole batch or a part of one that failed.
struct Run {
    number: u64,
    since: Instant,
    rows: usize,
    thread: RunThread,
    suspicion: Suspicion,
}

/// The thread of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RunThread {
    /// A thread that the instance has for itself.
    Instance,
    /// One that serves connections, which stand still meanwhile.
    Reactor,
}

/// A run over its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct StuckRun {
    pub(super) age: Duration,
    pub(super) rows: usize,
    pub(super) thread: RunThread,
}

/// The result of the looks at a run so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Suspicion {
    None,
    /// The last look found it over the limit.
    Once,
    /// Two looks in a row did.
    Stuck,
}

/// A run under way; it ends when dropped.
pub(in crate::engine) struct RunGuard<'a> {
    watch: &'a InstanceWatch,
    number: u64,
}

/// A batch taken from the queue; it is over when dropped.
pub(in crate::engine) struct TakenGuard<'a> {
    watch: &'a InstanceWatch,
    number: u64,
}

impl InstanceWatch {
    /// Notes a batch that was taken from the queue.
    pub(in crate::engine) fn take(&self, recall: Recall<Job, JobResult>) -> TakenGuard<'_> {
        let mut state = self.state.lock();
        let number = state.number();
        state.taken.push((number, recall));
        TakenGuard { watch: self, number }
    }

    /// Notes a run that begins.
    pub(in crate::engine) fn begin(&self, rows: usize, since: Instant) -> RunGuard<'_> {
        let mut state = self.state.lock();
        let number = state.number();
        state.runs.push(Run { number, since, rows, thread: RunThread::current(), suspicion: Suspicion::None });
        RunGuard { watch: self, number }
    }

    /// Age of its oldest run.
    pub(super) fn age(&self, now: Instant) -> Option<Duration> {
        let state = self.state.lock();
        let oldest = state.runs.iter().map(|run| run.since).min()?;
        Some(now.saturating_duration_since(oldest))
    }

    /// The longest run that ended.
    pub(super) fn longest(&self) -> Duration {
        self.state.lock().longest
    }

    /// A run that was over the limit at this look and the one before.
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

    /// True while a run is under way that is not stuck.
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

    /// Answers everyone who waits for this instance.
    pub(super) fn answer_callers(&self, error: &ServeError) {
        for (_, recall) in &self.state.lock().taken {
            recall.answer(|| Err(error.clone()));
        }
    }
}

impl RunThread {
    /// An instance's own thread has no reactor.
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
    async fn a_run_knows_if_its_thread_serves_connections() {
        assert_eq!(RunThread::current(), RunThread::Reactor);
        let own = std::thread::spawn(RunThread::current).join();
        assert_eq!(own.unwrap(), RunThread::Instance);
    }
}

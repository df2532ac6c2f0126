//! The running batches of all engines of the process, including retired ones: an endless batch blocks a device even
//! after its model was replaced.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{BatchLimit, EngineWatch, RunThread, StuckBatch};

/// The running batches of all engines, and the stuck ones among them.
pub(crate) struct BatchMonitor {
    limit: BatchLimit,
    engines: Mutex<Vec<Weak<EngineWatch>>>,
    stuck: Mutex<Vec<StuckBatch>>,
}

impl BatchMonitor {
    /// Creates a monitor without engines.
    pub(super) fn new(limit: BatchLimit) -> Self {
        Self { limit, engines: Mutex::default(), stuck: Mutex::default() }
    }

    /// Adds an engine, which is watched while it exists or runs a batch.
    pub(super) fn add(&self, engine: &Arc<EngineWatch>) {
        self.engines.lock().push(Arc::downgrade(engine));
    }

    /// The limit on the run time of a batch.
    pub(crate) fn limit(&self) -> BatchLimit {
        self.limit
    }

    /// Looks for stuck batches, and logs those that were not stuck at the previous look. Called about once a second.
    /// Returns a stuck batch for which the process has to exit by itself.
    pub(crate) fn look(&self, now: Instant) -> Option<StuckBatch> {
        let engines: Vec<_> = {
            let mut engines = self.engines.lock();
            engines.retain(|engine| engine.strong_count() > 0);
            engines.iter().filter_map(Weak::upgrade).collect()
        };
        let stuck: Vec<_> = engines.iter().flat_map(|engine| engine.look(now, self.limit)).collect();
        let before = std::mem::replace(&mut *self.stuck.lock(), stuck.clone());
        for batch in missing_from(&before, &stuck) {
            log_stuck(batch);
        }
        for StuckBatch { model, version, instance, .. } in missing_from(&stuck, &before) {
            tracing::warn!(model, version, instance, "a batch that was reported as stuck has ended");
        }
        let is_at_work = engines.iter().any(|engine| engine.is_at_work());
        let mut known = stuck.iter().filter(|batch| is_same_as_any(batch, &before));
        known.find(|batch| must_end(batch, is_at_work)).cloned()
    }

    /// Returns one of the stuck batches, if there are any.
    pub(crate) fn stuck(&self) -> Option<StuckBatch> {
        self.stuck.lock().first().cloned()
    }
}

/// Time that other batches get to finish after a batch got stuck on a thread that serves connections.
const OTHERS: Duration = Duration::from_secs(10);

/// True if the process has to exit because of this batch. The batch was stuck at the previous look too, which answered
/// its requests with errors as far as possible. If it blocks a thread that serves connections, probes and signals may
/// not reach the process any more, so the platform cannot restart it.
fn must_end(batch: &StuckBatch, is_at_work: bool) -> bool {
    match batch.thread {
        RunThread::Instance => false,
        RunThread::Reactor => !is_at_work || batch.age > batch.limit + OTHERS,
    }
}

/// Returns the batches whose instance has no batch in `others`.
fn missing_from<'a>(others: &'a [StuckBatch], batches: &'a [StuckBatch]) -> impl Iterator<Item = &'a StuckBatch> {
    batches.iter().filter(|batch| !is_same_as_any(batch, others))
}

fn is_same_as_any(batch: &StuckBatch, others: &[StuckBatch]) -> bool {
    let place = |batch: &StuckBatch| (batch.model.clone(), batch.version, batch.instance);
    others.iter().any(|other| place(other) == place(batch))
}

fn log_stuck(batch: &StuckBatch) {
    tracing::warn!(
        model = batch.model,
        version = batch.version,
        instance = batch.instance,
        rows = batch.rows,
        age_s = batch.age.as_secs_f64(),
        limit_s = batch.limit.as_secs_f64(),
        "a batch has run for longer than allowed (--max-batch-seconds): its requests fail, and the liveness probe \
         fails until the process is restarted"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stuck(thread: RunThread, age: Duration) -> StuckBatch {
        StuckBatch {
            model: "m".to_owned(),
            version: 1,
            instance: 0,
            rows: 1,
            thread,
            age,
            limit: Duration::from_secs(2),
        }
    }

    #[test]
    fn the_process_exits_for_a_batch_that_blocks_a_connection_thread() {
        let (soon, late) = (Duration::from_secs(4), Duration::from_secs(13));
        assert!(must_end(&stuck(RunThread::Reactor, soon), false));
        // Other batches get ten seconds to finish.
        assert!(!must_end(&stuck(RunThread::Reactor, soon), true));
        assert!(must_end(&stuck(RunThread::Reactor, late), true));
        // The process still answers probes and signals, so the platform can restart it.
        assert!(!must_end(&stuck(RunThread::Instance, late), false));
    }
}

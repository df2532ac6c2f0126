//! The batches of all engines of the process, retired ones included: an endless one keeps a device whatever
//! has replaced its model.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{BatchLimit, EngineWatch, RunThread, StuckBatch};

/// The batches of all engines, and those that are stuck.
pub(crate) struct Oversight {
    limit: BatchLimit,
    engines: Mutex<Vec<Weak<EngineWatch>>>,
    stuck: Mutex<Vec<StuckBatch>>,
}

impl Oversight {
    /// An oversight of no engine yet.
    pub(super) fn new(limit: BatchLimit) -> Self {
        Self { limit, engines: Mutex::default(), stuck: Mutex::default() }
    }

    /// Adds an engine; it is watched for as long as it exists or runs a batch.
    pub(super) fn add(&self, engine: &Arc<EngineWatch>) {
        self.engines.lock().push(Arc::downgrade(engine));
    }

    /// The limit on a batch's time.
    pub(crate) fn limit(&self) -> BatchLimit {
        self.limit
    }

    /// Looks for stuck batches, and logs those that were not stuck at the last look. To be called about
    /// once a second. Returns one for which the process has to end by itself.
    pub(crate) fn look(&self, now: Instant) -> Option<StuckBatch> {
        let engines: Vec<_> = {
            let mut engines = self.engines.lock();
            engines.retain(|engine| engine.strong_count() > 0);
            engines.iter().filter_map(Weak::upgrade).collect()
        };
        let looks = engines.iter().map(|engine| engine.look(now, self.limit));
        let stuck: Vec<_> = looks.flatten().collect();
        let before = std::mem::replace(&mut *self.stuck.lock(), stuck.clone());
        for batch in missing_from(&before, &stuck) {
            log_stuck(batch);
        }
        for StuckBatch { model, version, instance, .. } in missing_from(&stuck, &before) {
            tracing::warn!(model, version, instance, "a stuck batch has ended after all");
        }
        let is_at_work = engines.iter().any(|engine| engine.is_at_work());
        let mut known = stuck.iter().filter(|batch| is_same_as_any(batch, &before));
        known.find(|batch| must_end(batch, is_at_work)).cloned()
    }

    /// A batch that is stuck.
    pub(crate) fn stuck(&self) -> Option<StuckBatch> {
        self.stuck.lock().first().cloned()
    }
}

/// Longest wait for other batches, once a batch is stuck on a thread that serves connections.
const OTHERS: Duration = Duration::from_secs(10);

/// True if the process has to end for a batch that was stuck at the last look too, so that its requests were answered
/// as far as they can be: it holds a thread that serves connections, which no platform's probe or signal may reach.
fn must_end(batch: &StuckBatch, is_at_work: bool) -> bool {
    match batch.thread {
        RunThread::Instance => false,
        RunThread::Reactor => !is_at_work || batch.age > batch.limit + OTHERS,
    }
}

/// Those of `batches` whose instances have none in `others`.
fn missing_from<'a>(others: &'a [StuckBatch], batches: &'a [StuckBatch]) -> impl Iterator<Item = &'a StuckBatch> {
    let batches = batches.iter();
    batches.filter(|batch| !is_same_as_any(batch, others))
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
        "a batch has run for longer than it may (--max-batch-seconds): its requests are answered with an error, \
         and the process is not live until it is restarted"
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
    fn a_process_ends_for_a_batch_that_holds_a_thread_of_connections() {
        let (soon, late) = (Duration::from_secs(4), Duration::from_secs(13));
        assert!(must_end(&stuck(RunThread::Reactor, soon), false));
        // Other batches have ten seconds.
        assert!(!must_end(&stuck(RunThread::Reactor, soon), true));
        assert!(must_end(&stuck(RunThread::Reactor, late), true));
        // The platform restarts the process, which answers its probes and signals.
        assert!(!must_end(&stuck(RunThread::Instance, late), false));
    }
}

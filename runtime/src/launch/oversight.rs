//! The batches of all engines of the process, retired ones included: an endless one keeps a device whatever
//! has replaced its model.

use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;

use crate::engine::{BatchLimit, EngineWatch, StuckBatch};

/// The batches of all engines, and those that are stuck.
pub(crate) struct Oversight {
    limit: BatchLimit,
    engines: Mutex<Vec<Weak<EngineWatch>>>,
    stuck: Mutex<Vec<StuckBatch>>,
}

impl Oversight {
    /// An oversight of no engine yet.
    pub(super) fn new(limit: BatchLimit) -> Self {
        Self {
            limit,
            engines: Mutex::default(),
            stuck: Mutex::default(),
        }
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
    /// once a second.
    pub(crate) fn look(&self, now: Instant) {
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
        for StuckBatch {
            model,
            version,
            instance,
            ..
        } in missing_from(&stuck, &before)
        {
            tracing::warn!(
                model,
                version,
                instance,
                "a stuck batch has ended after all"
            );
        }
    }

    /// A batch that is stuck.
    pub(crate) fn stuck(&self) -> Option<StuckBatch> {
        self.stuck.lock().first().cloned()
    }
}

/// Those of `batches` whose instances have none in `others`.
fn missing_from<'a>(
    others: &'a [StuckBatch],
    batches: &'a [StuckBatch],
) -> impl Iterator<Item = &'a StuckBatch> {
    let is_same = |one: &StuckBatch, other: &StuckBatch| {
        (&one.model, one.version, one.instance) == (&other.model, other.version, other.instance)
    };
    let is_new = move |batch: &&StuckBatch| !others.iter().any(|other| is_same(batch, other));
    batches.iter().filter(is_new)
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

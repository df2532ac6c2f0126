//! Watches the batches that an engine's instances run, and their age, to find those that are stuck.
//!
//! No library can interrupt a batch. For a stuck batch the engine can only report it, fail the requests that wait for
//! it, and refuse further ones.

mod limit;
mod running;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use weir_batcher::{Batcher, SubmitError};

use super::JobResult;
use crate::error::ServeError;
use crate::model::job::Job;

pub(crate) use limit::BatchLimit;
pub(crate) use running::RunThread;
use running::{InstanceWatch, StuckRun};
pub(super) use running::{RunGuard, TakenGuard};

/// The running batches of one engine. Outlives the engine while a batch runs.
pub(crate) struct EngineWatch {
    model: String,
    version: u64,
    batcher: Batcher<Job, JobResult>,
    instances: Vec<InstanceWatch>,
    /// True while every instance is stuck, so that no instance would take a queued request.
    is_stalled: AtomicBool,
}

/// A batch that has run for longer than its limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StuckBatch {
    pub(crate) model: String,
    pub(crate) version: u64,
    pub(crate) instance: usize,
    pub(crate) rows: usize,
    pub(crate) thread: RunThread,
    pub(crate) age: Duration,
    pub(crate) limit: Duration,
}

impl EngineWatch {
    pub(super) fn new((model, version): (String, u64), batcher: Batcher<Job, JobResult>, instances: usize) -> Self {
        Self {
            model,
            version,
            batcher,
            instances: (0..instances).map(|_| InstanceWatch::default()).collect(),
            is_stalled: AtomicBool::new(false),
        }
    }

    /// Version number of the model, for messages.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// The running batches of one instance, by its number.
    pub(super) fn instance(&self, index: usize) -> &InstanceWatch {
        &self.instances[index]
    }

    /// Refuses requests while every instance is stuck.
    ///
    /// # Errors
    /// [`ServeError::Stalled`].
    pub(super) fn check(&self) -> Result<(), ServeError> {
        if self.is_stalled.load(Relaxed) {
            return Err(ServeError::Stalled(self.model.clone()));
        }
        Ok(())
    }

    /// Returns the error of a queued request. The batcher refuses the queue of a stuck engine with the error of a
    /// closed queue, which is replaced by [`ServeError::Stalled`].
    pub(super) fn explain(&self, error: SubmitError) -> ServeError {
        match (self.check(), error) {
            (Err(stalled), SubmitError::Draining) => stalled,
            (Ok(()) | Err(_), error) => error.into(),
        }
    }

    /// Finds stuck batches, fails the requests in them, and empties the queue while every instance is stuck. Called
    /// about once a second. A batch is stuck if two checks in a row find it older than `limit` allows, so that a pause
    /// of the whole process does not count.
    pub(crate) fn look(&self, now: Instant, limit: BatchLimit) -> Vec<StuckBatch> {
        let Some(limit) = self.limit(limit) else {
            return Vec::new();
        };
        let instances = self.instances.iter().enumerate();
        let stuck: Vec<_> = instances
            .filter_map(|(index, instance)| {
                let run = instance.find_stuck(now, limit)?;
                Some(self.stuck(index, run, limit))
            })
            .collect();
        for batch in &stuck {
            self.instances[batch.instance].answer_callers(&batch.error());
        }
        let is_stalled = !stuck.is_empty() && stuck.len() == self.instances.len();
        self.is_stalled.store(is_stalled, Relaxed);
        if is_stalled {
            self.batcher.refuse_queued();
        }
        stuck
    }

    fn stuck(&self, instance: usize, run: StuckRun, limit: Duration) -> StuckBatch {
        let StuckRun { age, rows, thread } = run;
        StuckBatch { model: self.model.clone(), version: self.version, instance, rows, thread, age, limit }
    }

    /// True while the engine runs a batch that is not stuck.
    pub(crate) fn is_at_work(&self) -> bool {
        self.instances.iter().any(InstanceWatch::is_at_work)
    }

    /// Age of the oldest running batch; zero if none runs.
    pub(crate) fn age(&self, now: Instant) -> Duration {
        self.instances.iter().filter_map(|watch| watch.age(now)).max().unwrap_or_default()
    }

    /// Age at which a batch of this engine counts as stuck; `None` if there is no limit.
    pub(crate) fn limit(&self, limit: BatchLimit) -> Option<Duration> {
        let longest = self.instances.iter().map(InstanceWatch::longest).max();
        limit.after(longest.unwrap_or_default())
    }
}

impl StuckBatch {
    /// Returns the error for the requests in the batch.
    fn error(&self) -> ServeError {
        let (age, limit) = (self.age.as_secs_f64(), self.limit.as_secs_f64());
        ServeError::Model(format!(
            "the model has not answered for {age:.0} s, longer than the {limit:.0} s allowed for a batch \
             (--max-batch-seconds): the request is abandoned"
        ))
    }
}

impl std::fmt::Display for StuckBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (age, limit) = (self.age.as_secs_f64(), self.limit.as_secs_f64());
        write!(
            f,
            "a batch of model '{}' version {} has run for {age:.0} s, longer than the {limit:.0} s allowed \
             (--max-batch-seconds): the process has to be restarted",
            self.model, self.version
        )
    }
}

//! The context that an instance, its runner and its threads share.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use weir_batcher::{Batcher, Work};
use weir_protocol::Coded;
use weir_serve::failure_log::FailureLog;

use super::JobResult;
use crate::backend::Device;
use crate::error::ServeError;
use crate::model::interface::Interface;
use crate::model::job::Job;
use crate::statistics::Statistics;

use super::watch::{EngineWatch, RunGuard, TakenGuard};

/// An instance's share of its engine: device, model, statistics and queue.
pub(super) struct InstanceContext {
    pub(super) index: usize,
    pub(super) device: Device,
    pub(super) interface: Arc<Interface>,
    pub(super) statistics: Arc<Statistics>,
    pub(super) batcher: Batcher<Job, JobResult>,
    pub(super) watch: Arc<EngineWatch>,
    /// Logged causes of failures and their times, shared by all instances of the engine.
    pub(super) failures: Arc<Mutex<FailureLog>>,
}

impl InstanceContext {
    /// Records a batch that was pulled from the queue, until the guard is dropped.
    pub(super) fn take(&self, work: &Work<Job, JobResult>) -> TakenGuard<'_> {
        self.watch.instance(self.index).take(work.callers())
    }

    /// Records a run of these jobs, until the guard is dropped.
    pub(super) fn begin(&self, jobs: &[Job], since: Instant) -> RunGuard<'_> {
        let rows = jobs.iter().map(|job| job.rows).sum();
        self.watch.instance(self.index).begin(rows, since)
    }

    /// Logs that a batch of `rows` rows ran out of memory, unless that was logged within the last minute.
    pub(super) fn log_too_large(&self, rows: usize, fits: usize, now: Instant) {
        let Some(left_out) = self.failures.lock().note("batch_out_of_memory", now) else {
            return;
        };
        tracing::warn!(
            model = self.interface.model,
            version = self.watch.version(),
            instance = self.index,
            rows,
            fits,
            left_out,
            "a batch ran out of memory, and its requests ran in smaller batches: later batches have at most as many \
             rows as fitted, and larger ones are tried again from time to time"
        );
    }

    /// Logs a failed request, unless a failure with the same cause was logged within the last minute.
    pub(super) fn log_failure(&self, error: &ServeError, now: Instant) {
        let cause = if matches!(error, ServeError::OutOfMemory(_)) { "out_of_memory" } else { error.code().label() };
        let Some(left_out) = self.failures.lock().note(cause, now) else {
            return;
        };
        tracing::warn!(
            model = self.interface.model,
            version = self.watch.version(),
            instance = self.index,
            cause,
            left_out,
            reason = %error,
            "a request failed"
        );
    }
}

//! Counts requests that never reach an instance.

use std::sync::Arc;
use std::time::Duration;

use weir_batcher::{Observer, SubmitError};

use crate::statistics::{Reason, Refusal, Statistics};

/// Records refusals, expiries and cancellations in a version's statistics.
pub(super) struct StatisticsObserver(pub(super) Arc<Statistics>);

impl Observer for StatisticsObserver {
    fn refused(&self, error: &SubmitError) {
        let cause = match error {
            SubmitError::QueueFull => Refusal::QueueFull,
            SubmitError::PredictedWait { .. } => Refusal::PredictedWait,
            SubmitError::Expired { .. } | SubmitError::DeadlineExceeded { .. } => Refusal::Deadline,
            SubmitError::Draining | SubmitError::Lost => Refusal::Draining,
        };
        // A request refused on arrival took no time.
        self.0.record_refusal(cause, Duration::ZERO);
    }

    fn expired(&self, error: &SubmitError) {
        let waited = match error {
            SubmitError::DeadlineExceeded { waited } => *waited,
            SubmitError::QueueFull
            | SubmitError::PredictedWait { .. }
            | SubmitError::Expired { .. }
            | SubmitError::Draining
            | SubmitError::Lost => Duration::ZERO,
        };
        self.0.record_failure(Reason::Rejected, waited);
    }

    fn cancelled(&self) {
        self.0.record_failure(Reason::Canceled, Duration::ZERO);
    }
}

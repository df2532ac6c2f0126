//! Failures of a revision in the gateway's log, one line a minute for each cause.

use std::fmt::Display;

use super::RevisionQueue;
use super::credit::Credit;
use crate::clock::now;

impl RevisionQueue {
    /// Logs that a request failed, or one try of it that is followed by another, unless a failure of the same cause was
    /// logged within the last minute.
    pub(crate) fn log_failure(&self, cause: &'static str, reason: &dyn Display) {
        let Some(left_out) = self.failures.lock().note(cause, now()) else {
            return;
        };
        tracing::warn!(
            revision = %self.name,
            cause,
            left_out,
            reason = %reason,
            "a request, or one try of it, failed"
        );
    }
}

impl Credit {
    /// Logs that its replica failed the request that holds it.
    pub(crate) fn log_failure(&self, cause: &'static str, reason: &str) {
        let replica = &self.upstream.name;
        self.queue().log_failure(cause, &format_args!("replica {replica}: {reason}"));
    }
}

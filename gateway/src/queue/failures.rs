//! Logs a revision's failures, at most one line a minute for each cause.

use std::fmt::Display;

use super::RevisionQueue;
use super::credit::Credit;
use crate::clock::now;

impl RevisionQueue {
    /// Logs that a request failed, or that one attempt failed and is retried, unless a failure of the same cause was
    /// logged within the last minute.
    pub(crate) fn log_failure(&self, cause: &'static str, reason: &dyn Display) {
        let Some(left_out) = self.failures.lock().note(cause, now()) else {
            return;
        };
        let failure = self.state.lock().failure_message();
        tracing::warn!(
            revision = %self.name,
            cause,
            left_out,
            reason = %reason,
            // The message may quote the output of a program. The log escapes control characters of a string.
            failure = failure.as_deref(),
            "a request, or one attempt of it, failed"
        );
    }
}

impl Credit {
    /// Logs that the credit's replica failed the request.
    pub(crate) fn log_failure(&self, cause: &'static str, reason: &str) {
        let replica = &self.upstream.name;
        self.queue().log_failure(cause, &format_args!("replica {replica}: {reason}"));
    }
}

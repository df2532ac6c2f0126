//! Findings of trials, for the log.

use serde::{Deserialize, Serialize};

/// A finding that the log of the server tells each time the model is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remark {
    /// The consequence for requests.
    pub(crate) message: String,
    /// Finding of the trials.
    pub(crate) reason: String,
    /// Advice to the operator.
    pub(crate) instead: String,
}

impl Remark {
    pub(crate) fn new(message: &str, reason: impl Into<String>, instead: &str) -> Self {
        Self { message: message.to_owned(), reason: reason.into(), instead: instead.to_owned() }
    }

    /// Warns the operator of the model.
    pub(crate) fn log(&self, model: &str) {
        tracing::warn!(model, reason = self.reason, instead = self.instead, "{}", self.message);
    }
}

//! From a file to a model that can serve: examination in a child process, trial runs, warm-up.

mod complaints;
pub(crate) mod examine;
pub(crate) mod file;
pub(crate) mod infer;
pub(crate) mod inspect;
mod optimize;
pub(crate) mod plan;
pub(crate) mod sandbox;
mod unguarded;
mod warm_up;
pub(crate) mod weights;

use serde::{Deserialize, Serialize};

/// A finding that the server logs each time the model is loaded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Remark {
    /// The consequence for requests.
    pub(crate) message: String,
    /// The evidence that the trials found.
    pub(crate) reason: String,
    /// Advice to the operator.
    pub(crate) instead: String,
}

impl Remark {
    pub(crate) fn new(message: &str, reason: impl Into<String>, instead: &str) -> Self {
        Self { message: message.to_owned(), reason: reason.into(), instead: instead.to_owned() }
    }

    /// Logs the finding as a warning about the model.
    pub(crate) fn log(&self, model: &str) {
        tracing::warn!(model, reason = self.reason, instead = self.instead, "{}", self.message);
    }
}

//! Errors collected during validation.

use weir_crds::inference_service::FailureReason;

use crate::field_error::{Cure, FieldError, ValidationErrors};

/// The errors found so far.
#[derive(Default)]
pub(super) struct ErrorList {
    pub(super) list: Vec<FieldError>,
    pub(super) reason: Option<FailureReason>,
    /// Number of errors in pods that a runtime has its part in.
    of_runtimes: usize,
}

impl ErrorList {
    pub(super) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.list.push(FieldError::new(field, message));
    }

    /// Adds an error in pods that a runtime has its part in: it may come, and go, without the manifest.
    pub(super) fn add_of_runtime(&mut self, field: impl Into<String>, message: impl Into<String>, cure: Cure) {
        self.of_runtimes += 1;
        self.list.push(FieldError { cure, ..FieldError::new(field, message) });
    }

    /// True where only pods are wrong, and each for a runtime that may have been another before.
    pub(super) fn are_of_runtimes(&self) -> bool {
        self.of_runtimes == self.list.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_errors(self) -> ValidationErrors {
        ValidationErrors { reason: self.reason.unwrap_or(FailureReason::InvalidPredictorSpec), list: self.list }
    }
}

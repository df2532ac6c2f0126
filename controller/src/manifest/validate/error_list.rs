//! Errors collected during validation.

use weir_crds::inference_service::FailureReason;

use crate::manifest::field_error::{Cure, FieldError, ValidationErrors};

/// Errors found so far.
#[derive(Default)]
pub(super) struct ErrorList {
    pub(super) list: Vec<FieldError>,
    pub(super) reason: Option<FailureReason>,
    /// Number of errors in pods that may be due to a runtime.
    of_runtimes: usize,
}

impl ErrorList {
    pub(super) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.list.push(FieldError::new(field, message));
    }

    /// Adds an error in pods that may be due to a runtime: it can appear and disappear without a change of the
    /// manifest.
    pub(super) fn add_of_runtime(&mut self, field: impl Into<String>, message: impl Into<String>, cure: Cure) {
        self.of_runtimes += 1;
        self.list.push(FieldError { cure, ..FieldError::new(field, message) });
    }

    /// True if all errors are in pods, and each may be due to a changed runtime.
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

//! Errors collected during validation.

use weir_crds::inference_service::FailureReason;

use crate::field_error::{Cure, FieldError, ValidationErrors};

/// The errors found so far.
#[derive(Default)]
pub(super) struct ErrorList {
    pub(super) list: Vec<FieldError>,
    pub(super) reason: Option<FailureReason>,
}

impl ErrorList {
    pub(super) fn add(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.list.push(FieldError::new(field, message));
    }

    /// Adds an error that goes by itself once the cluster has what the manifest asks for.
    pub(super) fn add_for_now(&mut self, field: impl Into<String>, message: impl Into<String>) {
        self.list.push(FieldError {
            cure: Cure::Cluster,
            ..FieldError::new(field, message)
        });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn into_errors(self) -> ValidationErrors {
        ValidationErrors {
            reason: self.reason.unwrap_or(FailureReason::InvalidPredictorSpec),
            list: self.list,
        }
    }
}

//! Results of validation: errors and ignored fields, each with the field's path.

use std::fmt;

use weir_crds::inference_service::FailureReason;

/// An error in one field of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, as in `spec.predictor.minReplicas`.
    pub field: String,
    /// Explanation of the error, without leading capital and full stop.
    pub message: String,
    /// Place of the fix: the manifest or the cluster.
    pub cure: Cure,
}

/// Place in which an error has to be fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// In the manifest: no change of the cluster removes the error.
    Manifest,
    /// In the cluster: what the manifest refers to, such as a runtime, may be added later.
    Cluster,
}

/// Every error of a service that cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationErrors {
    /// Class of the first error, for `status.modelStatus.lastFailureInfo.reason`.
    pub reason: FailureReason,
    /// The errors in the order of the fields; at least one.
    pub list: Vec<FieldError>,
}

/// Field that is accepted but has no effect, or less effect than it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredField {
    /// Path of the field, as in `spec.predictor.logger`.
    pub field: String,
    /// Reason why the field is ignored, or what happens instead.
    pub reason: String,
}

impl FieldError {
    /// Returns an error that lasts until the manifest is corrected.
    #[must_use]
    pub fn new(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { field: field.into(), message: message.into(), cure: Cure::Manifest }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<_> = self.list.iter().map(ToString::to_string).collect();
        f.write_str(&list.join("; "))
    }
}

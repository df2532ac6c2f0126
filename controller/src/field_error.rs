//! Results of validation: errors and ignored fields, each with the field's path.

use std::fmt;

use weir_crds::inference_service::FailureReason;

/// An error in one field of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field, as in `spec.predictor.minReplicas`.
    pub field: String,
    /// What is wrong with the value; no leading capital, no full stop.
    pub message: String,
    /// The thing that has to change so that the error goes.
    pub cure: Cure,
}

/// The thing that has to change so that an error goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// The manifest, whatever else there is.
    Manifest,
    /// The cluster: what the manifest asks for may come later, such as a runtime.
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

/// A field that is accepted and has no effect, or less than it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredField {
    /// Path of the field, as in `spec.predictor.logger`.
    pub field: String,
    /// Why the field is ignored, or what happens instead.
    pub reason: String,
}

impl FieldError {
    /// An error that lasts until the manifest is corrected.
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

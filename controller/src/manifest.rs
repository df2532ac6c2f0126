//! From the fields and annotations of an InferenceService to a validated service.

pub(crate) mod annotations;
pub(crate) mod component_field;
pub(crate) mod duration;
pub(crate) mod field_error;
mod pod;
pub(crate) mod scaling;
pub(crate) mod service;
pub(crate) mod validate;

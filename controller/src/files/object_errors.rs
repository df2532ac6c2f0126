//! Errors of a single object that its schema does not show: invalid names, and runtimes that Weir cannot run.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use weir_cluster::{ClusterError, ServiceName};
use weir_crds::{Incomplete, Manifest, Object, ServingRuntimeSpec, Spans};

use super::object_key::namespace;
use crate::manifest::validate::validate_runtime;

/// Field that identifies an object among those of its kind.
pub(super) const NAME: &str = "metadata.name";

/// The field with an object's namespace.
const NAMESPACE: &str = "metadata.namespace";

/// Returns every error that makes an object unusable, one sentence each, with its position. Errors of a service's spec
/// are found when the service is validated.
pub(super) fn errors(manifest: &Manifest) -> Vec<String> {
    let errors = field_errors(&manifest.object).into_iter();
    errors.map(|(field, message)| located(&manifest.spans, &field, &message)).collect()
}

/// Returns the errors in the valid fields of an object that also has invalid ones.
pub(super) fn errors_of_incomplete(incomplete: &Incomplete) -> Vec<String> {
    let errors = field_errors(&incomplete.manifest.object).into_iter();
    let sure = errors.filter(|(field, _)| !incomplete.is_unsure(field));
    sure.map(|(field, message)| located(&incomplete.manifest.spans, &field, &message)).collect()
}

/// Returns each error with the path of its field.
fn field_errors(object: &Object) -> Vec<(String, String)> {
    match object {
        Object::InferenceService(service) => name_error(&service.metadata).into_iter().collect(),
        Object::ServingRuntime(runtime) => runtime_errors(&runtime.spec),
        Object::ClusterServingRuntime(runtime) => runtime_errors(&runtime.spec.runtime),
        Object::StorageContainer(_) | Object::Other { .. } => Vec::new(),
    }
}

/// Returns the namespace and name of a service from its metadata.
///
/// # Errors
/// [`ClusterError::Name`] when one of them is invalid.
pub(super) fn service_name(metadata: &ObjectMeta) -> Result<ServiceName, ClusterError> {
    let name = metadata.name.as_deref().unwrap_or_default();
    ServiceName::new(namespace(metadata), name)
}

/// Formats a sentence about an object with the position of its field.
pub(super) fn located(spans: &Spans, field: &str, message: &str) -> String {
    format!("{}: {message}", location(spans, field))
}

/// Returns the position of an object's field as FILE:LINE:COLUMN.
pub(super) fn location(spans: &Spans, field: &str) -> String {
    match spans.of_field(field) {
        Some(position) => format!("{}:{}:{}", spans.file(), position.line, position.column),
        None => spans.file().to_owned(),
    }
}

fn name_error(metadata: &ObjectMeta) -> Option<(String, String)> {
    let error = service_name(metadata).err()?;
    let field = wrong_field(metadata);
    Some((field.to_owned(), format!("{field}: {error}")))
}

/// Returns the field to correct if namespace and name are invalid: the first of the two that is wrong.
fn wrong_field(metadata: &ObjectMeta) -> &'static str {
    let any_name = "name";
    match ServiceName::new(namespace(metadata), any_name) {
        Ok(_) => NAME,
        Err(_) => NAMESPACE,
    }
}

fn runtime_errors(runtime: &ServingRuntimeSpec) -> Vec<(String, String)> {
    let (errors, _) = validate_runtime(runtime);
    errors.iter().map(|error| (error.field.clone(), error.to_string())).collect()
}

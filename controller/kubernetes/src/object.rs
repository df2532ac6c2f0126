//! InferenceServices on the API server, read by the same rules as files. Pure.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::json;
use weir_cluster::ServiceName;
use weir_controller::{FieldError, KeptObject, Service, ValidationErrors};
use weir_crds::inference_service::FailureReason;
use weir_crds::{Diagnostic, InferenceService, Object};

use crate::statuses::WatchedStatus;

/// InferenceService as the watch last showed it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatchedService {
    /// Service in its last valid form.
    pub(crate) service: Arc<Service>,
    /// Reasons why the object is invalid now; None if it is valid.
    pub(crate) errors: Option<Arc<ValidationErrors>>,
    /// Status as the API server stores it.
    pub(crate) status: WatchedStatus,
    /// Digest of the metadata that a user writes, with UID and generation. An object with an equal digest is not parsed
    /// again.
    written: u64,
}

impl WatchedService {
    /// Reads an object whose former state is `before`. None for an object that is being deleted, or whose name Weir
    /// cannot serve.
    pub(crate) fn read(object: &DynamicObject, before: Option<&Self>) -> Option<Self> {
        let name = name(&object.metadata)?;
        if object.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let status = status(object);
        let written = written(&object.metadata);
        if let Some(before) = before.filter(|before| before.written == written) {
            return Some(Self { status, ..before.clone() });
        }
        let (spec, errors) = match service(object) {
            Ok(_) => (object.data.get("spec").map(|spec| spec.to_string().into()), None),
            Err(errors) => (last_good(before), Some(Arc::new(errors))),
        };
        let service = Service {
            name,
            object: KeptObject::Text { metadata: Arc::new(users(&object.metadata)), spec },
            spans: None,
            claims: None,
            model_stamps: weir_controller::ModelStamps::new(),
        };
        Some(Self { service: Arc::new(service), errors, status, written })
    }
}

/// Returns the status of an object.
pub(crate) fn status(object: &DynamicObject) -> WatchedStatus {
    let status = object.data.get("status");
    WatchedStatus {
        version: version(&object.metadata),
        text: status.map(ToString::to_string).unwrap_or_default().into(),
    }
}

/// Returns the resource version of an object, which is a number on an API server.
fn version(metadata: &ObjectMeta) -> u64 {
    let version = metadata.resource_version.as_deref();
    version.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn written(metadata: &ObjectMeta) -> u64 {
    let mut hasher = DefaultHasher::new();
    json!(users(metadata)).to_string().hash(&mut hasher);
    hasher.finish()
}

/// Returns the metadata without the fields that change with each write.
fn users(metadata: &ObjectMeta) -> ObjectMeta {
    ObjectMeta { managed_fields: None, resource_version: None, ..metadata.clone() }
}

fn name(metadata: &ObjectMeta) -> Option<ServiceName> {
    let namespace = metadata.namespace.as_deref()?;
    let name = ServiceName::new(namespace, metadata.name.as_deref()?);
    name.inspect_err(|error| tracing::warn!(namespace, %error, "ignoring a service with an invalid name")).ok()
}

/// Returns the service, or every error in the object. The text is JSON, which is valid YAML.
pub(crate) fn service(object: &DynamicObject) -> Result<Arc<InferenceService>, ValidationErrors> {
    let text = json!({
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": users(&object.metadata),
        "spec": object.data.get("spec"),
    });
    let manifests = weir_crds::read("", &text.to_string()).map_err(|found| invalid(&found))?;
    let mut objects = manifests.into_iter().map(|manifest| manifest.object);
    match objects.next() {
        Some(Object::InferenceService(read)) => Ok(read),
        _ => Err(invalid(&[])),
    }
}

fn invalid(found: &[Diagnostic]) -> ValidationErrors {
    let error = |diagnostic: &Diagnostic| FieldError::new(diagnostic.field.clone(), diagnostic.problem.to_string());
    ValidationErrors { reason: FailureReason::InvalidPredictorSpec, list: found.iter().map(error).collect() }
}

/// Returns the last valid spec.
fn last_good(before: Option<&WatchedService>) -> Option<Arc<str>> {
    match &before?.service.object {
        KeptObject::Text { spec, .. } => spec.clone(),
        KeptObject::Value(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn object(generation: i64, spec: Value) -> DynamicObject {
        let value = json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {
                "name": "digits", "namespace": "team", "uid": "u", "generation": generation, "resourceVersion": "7",
                "creationTimestamp": "2026-01-02T03:04:05Z",
                "managedFields": [{"manager": "kubectl", "operation": "Apply", "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {}}}],
            },
            "spec": spec,
            "status": {"url": "http://digits-team.example.com", "conditions": []},
        });
        serde_json::from_value(value).unwrap()
    }

    fn predictor(more: &str) -> Value {
        let text = format!(
            r#"{{"predictor": {{"minReplicas": 1, "model": {{"modelFormat": {{"name": "pytorch"}}, "storageUri": "pvc://m/d"{more}}}}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_new_status_or_version_leaves_the_service_the_same() {
        let first = WatchedService::read(&object(1, predictor("")), None).unwrap();
        assert_eq!(first.errors, None);
        let mut later = object(1, predictor(""));
        later.metadata.resource_version = Some("9".to_owned());
        later.data["status"]["url"] = "http://other".into();
        let second = WatchedService::read(&later, Some(&first)).unwrap();
        assert!(Arc::ptr_eq(&first.service, &second.service));
        let url = second.status.read().url;
        assert_eq!(url.as_deref(), Some("http://other"));
    }

    #[test]
    fn pods_are_checked_beyond_the_schema_and_the_last_valid_spec_is_kept() {
        let good = WatchedService::read(&object(1, predictor("")), None).unwrap();
        let bad = object(2, predictor(r#", "resuorces": {}"#));
        let read = WatchedService::read(&bad, Some(&good)).unwrap();
        let errors = read.errors.as_ref().unwrap().to_string();
        assert!(errors.contains("spec.predictor.model.resuorces: unknown field"), "{errors}");
        assert_eq!(last_good(Some(&read)), last_good(Some(&good)));
        assert_eq!(read.service.metadata().generation, Some(2));
    }

    #[test]
    fn an_object_that_is_being_deleted_is_no_longer_declared() {
        let mut object = object(1, predictor(""));
        object.metadata.deletion_timestamp = object.metadata.creation_timestamp.clone();
        assert_eq!(WatchedService::read(&object, None), None);
    }
}

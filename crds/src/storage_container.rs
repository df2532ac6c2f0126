//! `ClusterStorageContainer`: a container that fetches models from URIs of certain formats.

use k8s_openapi::api::core::v1::Container;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{CustomResourceDefinition, JSONSchemaProps};
use kube::{CustomResource, CustomResourceExt};
use regex::Regex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::pod;

/// Container that fetches models, and the URIs that it can fetch.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "serving.kserve.io",
    version = "v1alpha1",
    kind = "ClusterStorageContainer",
    plural = "clusterstoragecontainers",
    doc = "A container that fetches models from URIs of certain formats, for every namespace.",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterStorageContainerSpec {
    /// The container, as in a PodSpec. The URI and the directory for the files are appended to its arguments.
    #[schemars(schema_with = "pod::object::<Container>")]
    pub container: Box<Container>,
    /// Formats of the URIs that the container can fetch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_uri_formats: Vec<SupportedUriFormat>,
    /// Use of the container. Default `initContainer`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_type: Option<WorkloadType>,
    /// True if one container fetches several models. Ignored: each URI has a container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supports_multi_model_download: Option<bool>,
}

/// Format of a URI, given by `prefix` or by `regex`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SupportedUriFormat {
    /// Beginning of the URI, such as `s3://`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Regular expression that matches a part of the URI.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex: Option<String>,
}

/// Use of a storage container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum WorkloadType {
    /// Init container of a service's pods.
    #[default]
    InitContainer,
    /// Job that fills KServe's cache of models on nodes. Ignored.
    LocalModelDownloadJob,
}

/// A ClusterStorageContainer that may fetch the models of services.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageContainer {
    /// Name of the object.
    pub name: String,
    /// Container with its formats.
    pub spec: ClusterStorageContainerSpec,
}

impl StorageContainer {
    /// Reads an object of the API server. `None` if the object is disabled, is for another use than init containers, or
    /// does not fit its schema.
    #[must_use]
    pub fn read(name: &str, object: &Value) -> Option<Self> {
        let is_disabled = object.get("disabled").and_then(Value::as_bool) == Some(true);
        let spec: ClusterStorageContainerSpec = serde_json::from_value(object.get("spec")?.clone()).ok()?;
        let is_used = spec.workload_type.unwrap_or_default() == WorkloadType::InitContainer && !is_disabled;
        is_used.then(|| Self { name: name.to_owned(), spec })
    }

    /// Returns true if one of the formats fits a URI. A regular expression that cannot be compiled fits none.
    #[must_use]
    pub fn supports(&self, uri: &str) -> bool {
        let fits = |format: &SupportedUriFormat| {
            let by_prefix = format.prefix.as_ref().filter(|prefix| !prefix.is_empty());
            let by_regex = format.regex.as_ref().filter(|regex| !regex.is_empty());
            by_prefix.is_some_and(|prefix| uri.starts_with(prefix.as_str()))
                || by_regex.and_then(|regex| Regex::new(regex).ok()).is_some_and(|regex| regex.is_match(uri))
        };
        self.spec.supported_uri_formats.iter().any(fits)
    }
}

/// Returns the definition of ClusterStorageContainers. KServe's `disabled` is a field beside `spec`, which the derived
/// definition lacks.
#[must_use]
pub fn storage_container_definition() -> CustomResourceDefinition {
    let mut definition = ClusterStorageContainer::crd();
    let disabled = JSONSchemaProps {
        description: Some("True if no service may use the container. Default false.".to_owned()),
        type_: Some("boolean".to_owned()),
        nullable: Some(true),
        ..JSONSchemaProps::default()
    };
    for version in &mut definition.spec.versions {
        let schema = version.schema.as_mut().and_then(|schema| schema.open_api_v3_schema.as_mut());
        if let Some(fields) = schema.and_then(|schema| schema.properties.as_mut()) {
            fields.insert("disabled".to_owned(), disabled.clone());
        }
    }
    definition
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn container(more: &Value) -> Option<StorageContainer> {
        let mut object = json!({ "spec": {
            "container": {"name": "storage-initializer", "image": "example/initializer"},
            "supportedUriFormats": [{"prefix": "hdfs://"}, {"regex": "https://(.+?).example.com/(.+)"}, {"regex": "("}],
        } });
        let (fields, more) = (object.as_object_mut().unwrap(), more.as_object().unwrap().clone());
        fields.extend(more);
        StorageContainer::read("hdfs", &object)
    }

    #[test]
    fn a_format_fits_by_its_prefix_or_its_regular_expression() {
        let container = container(&json!({})).unwrap();
        let fitting = ["hdfs://name/path", "https://a.example.com/model"];
        assert_eq!(fitting.map(|uri| container.supports(uri)), [true; 2]);
        let others = ["webhdfs://name/path", "https://example.org/model", "", "("];
        assert_eq!(others.map(|uri| container.supports(uri)), [false; 4]);
    }

    #[test]
    fn only_enabled_containers_for_pods_are_used() {
        assert_eq!(container(&json!({ "disabled": true })), None);
        assert!(container(&json!({ "disabled": false })).is_some());
        assert_eq!(container(&json!({ "spec": {} })), None);
        let job = json!({ "container": {"name": "a"}, "workloadType": "localModelDownloadJob" });
        assert_eq!(container(&json!({ "spec": job })), None);
    }

    #[test]
    fn the_definition_has_the_field_that_disables_a_container() {
        let text = serde_json::to_value(storage_container_definition()).unwrap();
        let fields = &text["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"];
        assert_eq!(fields["disabled"]["type"], "boolean");
        assert_eq!(fields["spec"]["required"], json!(["container"]));
    }
}

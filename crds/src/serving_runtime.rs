//! `ServingRuntime` and `ClusterServingRuntime`: a pod template for model formats.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, LocalObjectReference, PodResourceClaim, Toleration, Volume,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::inference_service::Protocol;
use crate::{pod, rules};

/// What a runtime serves and with which pods.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "serving.kserve.io",
    version = "v1alpha1",
    kind = "ServingRuntime",
    plural = "servingruntimes",
    namespaced,
    doc = "A pod template for model formats, for one namespace.",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Disabled","type":"boolean","jsonPath":".spec.disabled"}"#,
    printcolumn = r#"{"name":"ModelType","type":"string","jsonPath":".spec.supportedModelFormats[*].name"}"#,
    printcolumn = r#"{"name":"Containers","type":"string","jsonPath":".spec.containers[*].name"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::serving_runtime()))]
pub struct ServingRuntimeSpec {
    /// Formats it serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub supported_model_formats: Vec<SupportedModelFormat>,
    /// Whether one pod serves the models of several services.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_model: Option<bool>,
    /// Whether no service may use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Protocols it speaks; none named means all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocol_versions: Vec<Protocol>,
    /// Further pods of a model too big for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_spec: Option<RuntimeWorker>,
    /// The pod.
    #[serde(flatten)]
    pub pod: RuntimePod,
    /// ModelMesh: where models are managed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_endpoint: Option<String>,
    /// ModelMesh: where gRPC requests go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_data_endpoint: Option<String>,
    /// ModelMesh: where HTTP requests go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_data_endpoint: Option<String>,
    /// ModelMesh: pods of this runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<u16>,
    /// ModelMesh: what fetches models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_helper: Option<StorageHelper>,
    /// ModelMesh: what translates for the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_in_adapter: Option<BuiltInAdapter>,
}

/// A pod template for model formats, for every namespace.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "serving.kserve.io",
    version = "v1alpha1",
    kind = "ClusterServingRuntime",
    plural = "clusterservingruntimes",
    doc = "A pod template for model formats, for every namespace.",
    derive = "PartialEq",
    printcolumn = r#"{"name":"Disabled","type":"boolean","jsonPath":".spec.disabled"}"#,
    printcolumn = r#"{"name":"ModelType","type":"string","jsonPath":".spec.supportedModelFormats[*].name"}"#,
    printcolumn = r#"{"name":"Containers","type":"string","jsonPath":".spec.containers[*].name"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(transparent)]
pub struct ClusterServingRuntimeSpec {
    /// The same as for one namespace.
    pub runtime: ServingRuntimeSpec,
}

/// A model format and how well a runtime serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupportedModelFormat {
    /// As services name it.
    #[schemars(length(max = 253))]
    pub name: String,
    /// `major`, `major.minor` or `major.minor.patch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether services that name no runtime may get this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_select: Option<bool>,
    /// The highest wins among runtimes that could be selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub priority: Option<i32>,
}

/// The part of a pod that a runtime may set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePod {
    /// Kubernetes' Containers; `kserve-container` serves the model.
    #[schemars(schema_with = "pod::list::<Container>", length(min = 1))]
    pub containers: Vec<Container>,
    /// Kubernetes' Volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<Volume>")]
    pub volumes: Vec<Volume>,
    /// Labels that a node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Kubernetes' Affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::object::<Affinity>")]
    pub affinity: Option<Affinity>,
    /// Kubernetes' Tolerations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<Toleration>")]
    pub tolerations: Vec<Toleration>,
    /// Labels of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Secrets for pulling images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<LocalObjectReference>")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Whether pods share the node's IPC namespace.
    #[serde(rename = "hostIPC", skip_serializing_if = "Option::is_none")]
    pub host_ipc: Option<bool>,
    /// Scheduler of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Kubernetes' PodResourceClaims.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<PodResourceClaim>")]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// Further pods of a model too big for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeWorker {
    /// Parts that the model's layers are cut into, one group of pods each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pipeline_parallel_size: Option<i32>,
    /// GPUs that share each layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tensor_parallel_size: Option<i32>,
    /// The pod.
    #[serde(flatten)]
    pub pod: RuntimePod,
}

/// ModelMesh: what fetches models.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageHelper {
    /// Whether the server does it itself.
    #[serde(default)]
    pub disabled: bool,
}

/// ModelMesh: what translates for the server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuiltInAdapter {
    /// The server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_type: Option<String>,
    /// Port for managing models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_management_port: Option<i32>,
    /// Bytes that the server needs for itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_buffer_bytes: Option<i64>,
    /// Milliseconds that loading a model may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_loading_timeout_millis: Option<i64>,
    /// Environment of the adapter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<EnvVar>")]
    pub env: Vec<EnvVar>,
}

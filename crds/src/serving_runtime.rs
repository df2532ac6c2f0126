//! `ServingRuntime` and `ClusterServingRuntime`: pod templates for model formats.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Container, EnvVar, LocalObjectReference, PodResourceClaim, Toleration, Volume,
};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::inference_service::Protocol;
use crate::{pod, rules};

/// Model formats that a runtime serves, and its pod template.
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
    /// Model formats that the runtime serves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub supported_model_formats: Vec<SupportedModelFormat>,
    /// True if one pod serves models of several services. Not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub multi_model: Option<bool>,
    /// True if no service may use the runtime. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Protocols that the runtime speaks. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocol_versions: Vec<Protocol>,
    /// Additional pods of a model that is too large for one pod. Not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worker_spec: Option<RuntimeWorker>,
    /// Fields of the pod template.
    #[serde(flatten)]
    pub pod: RuntimePod,
    /// ModelMesh endpoint for managing models. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_endpoint: Option<String>,
    /// ModelMesh endpoint for gRPC requests. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_data_endpoint: Option<String>,
    /// ModelMesh endpoint for HTTP requests. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_data_endpoint: Option<String>,
    /// Number of the runtime's pods with ModelMesh. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 65535))]
    pub replicas: Option<i32>,
    /// Settings of ModelMesh's storage helper. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_helper: Option<StorageHelper>,
    /// Settings of ModelMesh's adapter. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub built_in_adapter: Option<BuiltInAdapter>,
}

/// Model formats that a cluster-wide runtime serves, and its pod template.
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
    /// The fields of a ServingRuntime.
    pub runtime: ServingRuntimeSpec,
}

/// A model format that a runtime serves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SupportedModelFormat {
    /// Name of the format, as services declare it: `pytorch`, `onnx`, and so on.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Version of the format: `major`, `major.minor` or `major.minor.patch`. Default: matches services that name no
    /// version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// True if the runtime may be chosen for services that name no runtime. Default false.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_select: Option<bool>,
    /// Priority among the runtimes with this format; the highest wins. At least 1; formats of the same name need
    /// the same priority.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub priority: Option<i32>,
}

/// Fields of a pod that a runtime sets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimePod {
    /// Containers of the pod, at least one; `kserve-container` serves the model.
    #[schemars(schema_with = "pod::list::<Container>", length(min = 1))]
    pub containers: Vec<Container>,
    /// Volumes of the pod, as in a PodSpec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<Volume>")]
    pub volumes: Vec<Volume>,
    /// Labels that the node must have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    /// Affinity of the pod, as in a PodSpec.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::object::<Affinity>")]
    pub affinity: Option<Affinity>,
    /// Tolerations of the pod, as in a PodSpec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<Toleration>")]
    pub tolerations: Vec<Toleration>,
    /// Labels added to the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations added to the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Secrets with credentials for image registries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<LocalObjectReference>")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// True if the pods share the node's IPC namespace. Default false.
    #[serde(rename = "hostIPC", skip_serializing_if = "Option::is_none")]
    pub host_ipc: Option<bool>,
    /// Name of the scheduler for the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Dynamic resource claims of the pod, as in a PodSpec.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<PodResourceClaim>")]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// Additional pods of a model that is too large for one pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeWorker {
    /// Number of stages that the model's layers are divided into, one group of pods each.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub pipeline_parallel_size: Option<i32>,
    /// Number of GPUs that share each layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tensor_parallel_size: Option<i32>,
    /// Fields of the worker's pod template.
    #[serde(flatten)]
    pub pod: RuntimePod,
}

/// Settings of ModelMesh's storage helper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StorageHelper {
    /// True if the server fetches models itself. Default false.
    #[serde(default)]
    pub disabled: bool,
}

/// Settings of the adapter between ModelMesh and a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BuiltInAdapter {
    /// Type of the model server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_type: Option<String>,
    /// Port of the server for managing models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_management_port: Option<i32>,
    /// Memory that the server needs for itself, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_buffer_bytes: Option<i64>,
    /// Maximum duration of loading a model, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_loading_timeout_millis: Option<i64>,
    /// Environment variables of the adapter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "pod::list::<EnvVar>")]
    pub env: Vec<EnvVar>,
}

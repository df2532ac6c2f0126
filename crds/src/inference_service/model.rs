//! The model of a predictor: its format, where it is stored, and what its container changes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{pod, rules};

/// A model in any format.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Format of the model; a runtime that supports it is chosen.
    pub model_format: ModelFormat,
    /// ServingRuntime or ClusterServingRuntime to use instead of the one that would be chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// What every format has.
    #[serde(flatten)]
    pub framework: Framework,
}

/// Format of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFormat {
    /// As runtimes name it: `pytorch`, `onnx`, …
    pub name: String,
    /// `major`, `major.minor` or `major.minor.patch`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// What a model has whatever its format: the whole of the short forms `sklearn:`, `pytorch:`, ….
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Framework {
    /// Where the model is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_uri: Option<String>,
    /// Tag of the runtime's image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Protocol that the runtime must speak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<Protocol>,
    /// Where the model is, by a key of the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<ModelStorage>,
    /// Decryption of an encrypted model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidential: Option<Confidential>,
    /// Laid over the runtime's container. Its name is empty where none is written.
    #[serde(flatten, serialize_with = "pod::serialize_container")]
    #[schemars(schema_with = "pod::container_fields")]
    pub container: Box<Container>,
}

/// Inference protocol of a runtime.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Protocol {
    /// TensorFlow Serving's REST.
    #[serde(rename = "v1")]
    V1,
    /// Open Inference over REST.
    #[serde(rename = "v2")]
    V2,
    /// TensorFlow Serving's gRPC.
    #[serde(rename = "grpc-v1")]
    GrpcV1,
    /// Open Inference over gRPC.
    #[serde(rename = "grpc-v2")]
    GrpcV2,
}

/// Something in an object store, by a key of the credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Storage {
    /// Path below the store's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What replaces the settings that come with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// Key in the secret of credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A model in an object store, by a key of the credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStorage {
    /// Where and how.
    #[serde(flatten)]
    pub storage: Storage,
    /// Path of the model's schema file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_path: Option<String>,
}

/// Decryption of an encrypted model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Confidential {
    /// Whether the model is encrypted.
    pub enabled: bool,
    /// Key of the model at the key broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
}

/// One of several spans that models are fetched from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::storage_uri()))]
pub struct StorageUri {
    /// Where it is.
    #[schemars(length(min = 1))]
    pub uri: String,
    /// Where the container sees it. Default `/mnt/models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("default" = crate::MODEL_MOUNT_PATH))]
    pub mount_path: Option<String>,
}

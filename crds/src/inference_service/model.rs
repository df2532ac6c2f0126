//! The model of a predictor: format, storage, and changes to the container.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::constants::MODEL_MOUNT_PATH;
use crate::{pod, rules};

/// A model in any format that a runtime supports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Model {
    /// Format of the model. If `runtime` is not set, the best runtime for this format is chosen.
    pub model_format: ModelFormat,
    /// Name of the ServingRuntime or ClusterServingRuntime to use. Default: the best match for the format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime: Option<String>,
    /// Fields of every format: storage, protocol, and changes to the container.
    #[serde(flatten)]
    pub framework: Framework,
}

/// Format of a model, used to choose a runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelFormat {
    /// Name of the format, as runtimes declare it: `pytorch`, `onnx`, and so on.
    pub name: String,
    /// Version of the format: `major`, `major.minor` or `major.minor.patch`. Default: any version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Fields of every format. The short forms `sklearn:`, `pytorch:` and so on have only these fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Framework {
    /// URI of the model, such as `pvc://CLAIM/PATH`, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `hf://ORG/NAME`,
    /// `oci://REGISTRY/IMAGE` or `https://HOST/MODEL.zip`; archives are unpacked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_uri: Option<String>,
    /// Tag of the runtime's image. Default: the tag in the runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Inference protocol that the runtime must speak: `v1`, `v2`, `grpc-v1` or `grpc-v2`. Default: any; runtimes
    /// for `v1` come first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol_version: Option<Protocol>,
    /// Object store of the model, identified by a key of the Secret `storage-config`. With `storageUri`, the key's
    /// entry gives only the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<ModelStorage>,
    /// Decryption of an encrypted model. Not supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confidential: Option<Confidential>,
    /// Fields to change in the runtime's container, a Container; arguments are appended to the runtime's. In memory, an
    /// omitted name is an empty string.
    #[serde(flatten, serialize_with = "pod::serialize_container")]
    #[schemars(schema_with = "pod::container_fields")]
    pub container: Box<Container>,
}

/// Inference protocol of a runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Protocol {
    /// The v1 REST protocol of TensorFlow Serving.
    #[serde(rename = "v1")]
    V1,
    /// The Open Inference Protocol (v2) over HTTP.
    #[serde(rename = "v2")]
    V2,
    /// The v1 gRPC protocol of TensorFlow Serving.
    #[serde(rename = "grpc-v1")]
    GrpcV1,
    /// The Open Inference Protocol (v2) over gRPC.
    #[serde(rename = "grpc-v2")]
    GrpcV2,
}

/// A path in an object store that is identified by a key of the storage credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Storage {
    /// Path within the object store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Settings that override those of the credentials, such as `type` and `bucket`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<BTreeMap<String, String>>,
    /// Key in the secret of storage credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// A model in an object store that is identified by a key of the storage credentials.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelStorage {
    /// Path, parameters and key of the store.
    #[serde(flatten)]
    pub storage: Storage,
    /// Path of the model's schema file in the store. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schema_path: Option<String>,
}

/// Decryption of an encrypted model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Confidential {
    /// True if the model is encrypted.
    pub enabled: bool,
    /// ID of the model's key at the key broker.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
}

/// A URI to fetch files from, and the directory to mount them in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::storage_uri()))]
pub struct StorageUri {
    /// URI of the files, with the schemes of `storageUri`.
    #[schemars(length(min = 1))]
    pub uri: String,
    /// Absolute directory in the container. Default `/mnt/models`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("default" = MODEL_MOUNT_PATH))]
    pub mount_path: Option<String>,
}

impl StorageUri {
    /// Returns true if the files are mounted at the path of `storageUri`.
    #[must_use]
    pub fn is_at_model_path(&self) -> bool {
        let path = self.mount_path.as_deref().unwrap_or(MODEL_MOUNT_PATH);
        path.trim_end_matches('/') == MODEL_MOUNT_PATH
    }
}

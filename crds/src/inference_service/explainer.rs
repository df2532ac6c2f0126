//! Transformer and explainer, the components besides the predictor.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Component, ModelStorage, StorageUri};
use crate::{pod, rules};

/// Containers that process requests before and after the predictor. Requests to the service reach the transformer,
/// which calls the predictor through the gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::transformer()))]
pub struct Transformer {
    /// Files to fetch, with their mount paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub storage_uris: Vec<StorageUri>,
    /// Pod of the transformer, a PodSpec; the container that serves is `kserve-container`.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
    /// Scaling, traffic split, batching and logging.
    #[serde(flatten)]
    pub component: Component,
}

/// Explanations of the model's responses. Requests to `/v1/models/{name}:explain` reach the explainer, which calls the
/// predictor through the gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::explainer()))]
pub struct Explainer {
    /// Explainer of the Adversarial Robustness Toolbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub art: Option<Box<Art>>,
    /// Files to fetch, with their mount paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub storage_uris: Vec<StorageUri>,
    /// Pod of the explainer, a PodSpec.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
    /// Scaling, traffic split, batching and logging.
    #[serde(flatten)]
    pub component: Component,
}

/// Explainer of the Adversarial Robustness Toolbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Art {
    /// Type of explainer; only `SquareAttack`.
    #[serde(rename = "type")]
    pub kind: ArtKind,
    /// URI of the explainer's own model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_uri: Option<String>,
    /// Tag of the explainer's image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Settings of the explainer, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Object store of the explainer's own model, identified by a key of the storage credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<ModelStorage>,
    /// Fields to change in the container, a Container; they take precedence over the defaults.
    #[serde(flatten, serialize_with = "pod::serialize_container")]
    #[schemars(schema_with = "pod::container_fields")]
    pub container: Box<Container>,
}

/// Type of Adversarial Robustness Toolbox explainer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArtKind {
    /// The square attack, which perturbs images in squares.
    SquareAttack,
}

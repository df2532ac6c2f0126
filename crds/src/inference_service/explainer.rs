//! The components beside the predictor.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Component, ModelStorage, StorageUri};
use crate::{pod, rules};

/// Containers that requests pass before and after the predictor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::transformer()))]
pub struct Transformer {
    /// Several spans that files are fetched from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub storage_uris: Vec<StorageUri>,
    /// The pod: Kubernetes' PodSpec.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
    /// How it is scaled, split, batched and logged.
    #[serde(flatten)]
    pub component: Component,
}

/// What explains a model's answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::explainer()))]
pub struct Explainer {
    /// The Adversarial Robustness Toolbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub art: Option<Box<Art>>,
    /// Several spans that files are fetched from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub storage_uris: Vec<StorageUri>,
    /// The pod: Kubernetes' PodSpec.
    #[serde(flatten, serialize_with = "pod::serialize_pod")]
    #[schemars(schema_with = "pod::pod_fields")]
    pub pod: Box<PodSpec>,
    /// How it is scaled, split, batched and logged.
    #[serde(flatten)]
    pub component: Component,
}

/// An explainer of the Adversarial Robustness Toolbox.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Art {
    /// Which explainer.
    #[serde(rename = "type")]
    pub kind: ArtKind,
    /// Where its own model is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_uri: Option<String>,
    /// Tag of its image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_version: Option<String>,
    /// Its settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Where its own model is, by a key of the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<ModelStorage>,
    /// Laid over its container. Its name is empty where none is written.
    #[serde(flatten, serialize_with = "pod::serialize_container")]
    #[schemars(schema_with = "pod::container_fields")]
    pub container: Box<Container>,
}

/// An explainer of the Adversarial Robustness Toolbox, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ArtKind {
    /// The square attack.
    SquareAttack,
}

//! `InferenceService`: a model served over the Open Inference Protocol.

mod auto_scaling;
mod component;
mod explainer;
mod logger;
mod model;
mod predictor;
mod status;
mod tracing;

use kube::CustomResource;
use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};

pub use auto_scaling::{
    AuthenticationReference, AutoScaling, ExternalAuthentication, ExternalMetric, ExternalMetricSource, Metric,
    MetricKind, MetricTarget, MetricsBackend, PodMetric, PodMetricSource, PodMetricsBackend, ResourceMetric,
    ResourceMetricSource, TargetKind,
};
pub use component::{Batcher, Component, ScaleMetric};
pub use explainer::{Art, ArtKind, Explainer, Transformer};
pub use logger::{LogMode, Logger, LoggerStorage};
pub use model::{Confidential, Framework, Model, ModelFormat, ModelStorage, Protocol, Storage, StorageUri};
pub use predictor::{Predictor, Worker};
pub use status::{
    Address, CanaryStatus, ComponentStatus, Condition, ConditionStatus, FailureInfo, FailureReason,
    InferenceServiceStatus, ModelCopies, ModelState, ModelStates, ModelStatus, Traffic, TransitionStatus,
};
pub use tracing::{Sampler, Tracing};

use crate::rules;

/// Desired state of an InferenceService.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "serving.kserve.io",
    version = "v1beta1",
    kind = "InferenceService",
    plural = "inferenceservices",
    shortname = "isvc",
    namespaced,
    doc = "A model served over the Open Inference Protocol.",
    derive = "PartialEq",
    validation = Rule::new(rules::NAME).message(rules::NAME_MESSAGE),
    validation = Rule::new(rules::NAME_LENGTH).message(rules::NAME_LENGTH_MESSAGE),
    status = "InferenceServiceStatus",
    scale(
        spec_replicas_path = ".spec.predictor.minReplicas",
        status_replicas_path = ".status.modelStatus.copies.totalCopies",
        label_selector_path = ".status.labelSelector"
    ),
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name":"Prev","type":"integer","jsonPath":".status.components.predictor.traffic[?(@.tag=='prev')].percent"}"#,
    printcolumn = r#"{"name":"Latest","type":"integer","jsonPath":".status.components.predictor.traffic[?(@.latestRevision==true)].percent"}"#,
    printcolumn = r#"{"name":"PrevRolledoutRevision","type":"string","jsonPath":".status.components.predictor.traffic[?(@.tag=='prev')].revisionName"}"#,
    printcolumn = r#"{"name":"LatestReadyRevision","type":"string","jsonPath":".status.components.predictor.latestReadyRevision"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name":"Reason","type":"string","priority":1,"jsonPath":".status.conditions[?(@.type=='Ready')].reason"}"#
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::service()))]
pub struct InferenceServiceSpec {
    /// The predictor, which serves the model.
    #[schemars(transform = one_replica_by_default)]
    pub predictor: Predictor,
    /// Containers that process requests before and after the predictor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transformer: Option<Box<Transformer>>,
    /// Explanations of the model's responses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub explainer: Option<Box<Explainer>>,
    /// Variants of the predictor that receive part of the traffic.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "atomic"))]
    pub canary: Vec<Canary>,
    /// OpenTelemetry traces of the servers. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracing: Option<Tracing>,
}

/// A variant of the predictor that receives part of the traffic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::canary()))]
pub struct Canary {
    /// Fields that differ from the stable predictor; the name is required.
    #[schemars(transform = stable_model_by_default)]
    pub predictor: Predictor,
    /// Share of the requests in percent, 0 to 100; all canaries together at most 100. 0 deploys the canary without
    /// traffic.
    #[schemars(range(min = 0, max = 100))]
    pub traffic_percent: i32,
}

/// Sets the default of `minReplicas` in the schema, because the scale subresource needs the field. A canary has no
/// default: its replicas follow those of the stable predictor.
fn one_replica_by_default(schema: &mut Schema) {
    if let Some(field) = schema.pointer_mut("/properties/minReplicas")
        && let Some(field) = field.as_object_mut()
    {
        field.insert("default".to_owned(), crate::constants::MIN_REPLICAS.into());
        // The field must not be nullable: a null would override the default.
        field.insert("type".to_owned(), "integer".into());
    }
}

/// Lets the predictor of a canary omit fields that it inherits from the stable one, including the model.
fn stable_model_by_default(schema: &mut Schema) {
    schema.insert("x-kubernetes-validations".to_owned(), rules::canary_predictor());
}

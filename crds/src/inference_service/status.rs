//! What is known of a service that runs.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is known of a service that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferenceServiceStatus {
    /// Generation of the service that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready` and what it follows from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// What others noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Where callers outside the cluster reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Where callers inside the cluster reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// By component: `predictor`, `transformer`, `explainer`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, Box<ComponentStatus>>,
    /// The model of the predictor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_status: Option<ModelStatus>,
    /// The canaries of `spec.canary`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub canary_statuses: Vec<CanaryStatus>,
    /// `Standard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_mode: Option<String>,
    /// ServingRuntime in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_runtime_name: Option<String>,
    /// ClusterServingRuntime in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_serving_runtime_name: Option<String>,
}

/// One thing that holds, does not hold, or is not known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// What it is about: `Ready`, `PredictorReady`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// Why, in one CamelCase word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why, in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Empty is an error; `Warning` and `Info` do not count towards `Ready`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl Condition {
    /// The model has been loaded and the route is live.
    pub const READY: &'static str = "Ready";
    /// The predictor answers.
    pub const PREDICTOR_READY: &'static str = "PredictorReady";
    /// The transformer answers.
    pub const TRANSFORMER_READY: &'static str = "TransformerReady";
    /// The explainer answers.
    pub const EXPLAINER_READY: &'static str = "ExplainerReady";
    /// Every gateway has the route.
    pub const INGRESS_READY: &'static str = "IngressReady";
    /// Every canary answers.
    pub const CANARY_PREDICTOR_READY: &'static str = "CanaryPredictorReady";
    /// The service was told to stop.
    pub const STOPPED: &'static str = "Stopped";
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Not known.
    Unknown,
}

/// Where something is reached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// Its URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What is known of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentStatus {
    /// Newest revision that is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_ready_revision: Option<String>,
    /// Newest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_created_revision: Option<String>,
    /// Revision that had all traffic before the one that has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_rolledout_revision: Option<String>,
    /// Newest revision that has had all traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_rolledout_revision: Option<String>,
    /// How traffic is split.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
    /// Where callers outside the cluster reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The same, for REST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest_url: Option<String>,
    /// The same, for gRPC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_url: Option<String>,
    /// Where callers inside the cluster reach it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
}

/// A revision's share of the traffic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Traffic {
    /// The revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// Whether it is the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<bool>,
    /// Its share of the requests, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    /// `latest` or `prev`, or a canary's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Where the tag is reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// What is known of a canary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Name of its predictor.
    pub name: String,
    /// Whether it answers.
    #[serde(default)]
    pub ready: bool,
    /// Its share of the requests now, in percent.
    #[serde(default)]
    pub traffic_percent: i32,
    /// Its model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_status: Option<ModelStatus>,
}

/// What is known of the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelStatus {
    /// Whether what answers is what the spec asks for.
    pub transition_status: TransitionStatus,
    /// States of the model that answers and of the one to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<ModelStates>,
    /// Why loading failed the last time it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_info: Option<FailureInfo>,
    /// How many replicas have the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<ModelCopies>,
}

/// Whether what answers is what the spec asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TransitionStatus {
    /// It is.
    #[default]
    UpToDate,
    /// It will be.
    InProgress,
    /// The new model does not load.
    BlockedByFailedLoad,
    /// The spec cannot be served.
    InvalidSpec,
    /// As KServe may have left it.
    #[serde(rename = "")]
    Unset,
}

/// States of a model in transition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelStates {
    /// The model that answers.
    pub active_model_state: ModelState,
    /// The model to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_model_state: Option<ModelState>,
}

/// State of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModelState {
    /// Not seen yet.
    #[default]
    Pending,
    /// Sleeping; the first request loads it.
    Standby,
    /// Being loaded.
    Loading,
    /// Loaded by at least one replica.
    Loaded,
    /// No replica could load it.
    FailedToLoad,
    /// As KServe may have left it.
    #[serde(rename = "")]
    Unset,
}

/// Why loading failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureInfo {
    /// The pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Class of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// The failure in a sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_revision_name: Option<String>,
    /// When.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Exit status of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Class of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureReason {
    /// The runtime could not load the model.
    ModelLoadFailed,
    /// The runtime does not start or does not answer.
    RuntimeUnhealthy,
    /// The runtime that was asked for is disabled.
    RuntimeDisabled,
    /// No runtime supports the format, version and protocol.
    NoSupportingRuntime,
    /// No runtime has the name that was asked for.
    RuntimeNotRecognized,
    /// The spec cannot be served.
    InvalidPredictorSpec,
}

/// How many replicas have the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelCopies {
    /// Replicas that failed to load it.
    pub failed_copies: i32,
    /// Replicas that are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_copies: Option<i32>,
}

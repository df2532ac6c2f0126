//! Observed state of an InferenceService.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Observed state of an InferenceService.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct InferenceServiceStatus {
    /// `metadata.generation` of the object that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions: `Ready`, and the conditions it is derived from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["type"]
    ))]
    pub conditions: Vec<Condition>,
    /// Annotations of the status; not changed by Weir.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// URL for clients outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// URL for clients inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
    /// Status by component: `predictor`, and `transformer` and `explainer` if the service has them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, Box<ComponentStatus>>,
    /// Status of the predictor's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_status: Option<ModelStatus>,
    /// Status of each canary in `spec.canary`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub canary_statuses: Vec<CanaryStatus>,
    /// Label selector of the service's pods, for tools that scale the service as a whole, such as a
    /// HorizontalPodAutoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label_selector: Option<String>,
    /// Deployment mode in KServe's terms; always `Standard`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_mode: Option<String>,
    /// Name of the ServingRuntime in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_runtime_name: Option<String>,
    /// Name of the ClusterServingRuntime in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_serving_runtime_name: Option<String>,
}

/// A condition of the service, like the conditions of Kubernetes' own objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Type of the condition: `Ready`, `PredictorReady`, and so on.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status of the condition: `True`, `False` or `Unknown`.
    pub status: ConditionStatus,
    /// Machine-readable reason in CamelCase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Explanation of the status for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Absent for conditions that count towards `Ready`; `Warning` or `Info` for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<String>,
    /// Time of the last change of `status`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

impl InferenceServiceStatus {
    /// Finds a condition by its type, such as [`Condition::READY`].
    #[must_use]
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|one| one.kind == kind)
    }
}

impl Condition {
    /// Condition: the model has been loaded and the route is live.
    pub const READY: &'static str = "Ready";
    /// Condition: the predictor serves or can scale up from zero.
    pub const PREDICTOR_READY: &'static str = "PredictorReady";
    /// Condition: the transformer is ready.
    pub const TRANSFORMER_READY: &'static str = "TransformerReady";
    /// Condition: the explainer is ready.
    pub const EXPLAINER_READY: &'static str = "ExplainerReady";
    /// Condition: every gateway has the route.
    pub const INGRESS_READY: &'static str = "IngressReady";
    /// Condition: every canary is ready.
    pub const CANARY_PREDICTOR_READY: &'static str = "CanaryPredictorReady";
    /// Condition: the annotation `serving.kserve.io/stop` stops the service.
    pub const STOPPED: &'static str = "Stopped";
}

/// Status of a condition, as in Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ConditionStatus {
    /// The condition holds now.
    True,
    /// The condition does not hold.
    False,
    /// The status is not known yet.
    Unknown,
}

/// An address of the service inside the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Address {
    /// URL that clients inside the cluster use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Observed state of one component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentStatus {
    /// Newest revision that has been ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_ready_revision: Option<String>,
    /// Newest revision, ready or not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_created_revision: Option<String>,
    /// Revision that received all traffic before the current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_rolledout_revision: Option<String>,
    /// Newest revision that has received all traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_rolledout_revision: Option<String>,
    /// Traffic by revision; the percentages add up to 100.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traffic: Vec<Traffic>,
    /// URL for clients outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// URL for HTTP clients outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rest_url: Option<String>,
    /// URL for gRPC clients outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_url: Option<String>,
    /// URL for clients inside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<Address>,
}

/// Share of the traffic of one revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Traffic {
    /// Name of the revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_name: Option<String>,
    /// True for the newest revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_revision: Option<bool>,
    /// Share of the requests in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<i64>,
    /// Tag of the revision: `latest`, `prev`, or a canary's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// URL of this revision alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

/// Observed state of a canary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Name of the canary's predictor.
    pub name: String,
    /// True when the canary serves or can scale up from zero.
    #[serde(default)]
    pub ready: bool,
    /// Current share of the requests in percent; 0 until the canary has loaded.
    #[serde(default)]
    pub traffic_percent: i32,
    /// Status of the canary's model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_status: Option<ModelStatus>,
}

/// Observed state of a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelStatus {
    /// Progress from the active model to the one in the spec.
    pub transition_status: TransitionStatus,
    /// States of the active model and of the one in the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<ModelStates>,
    /// Details of the last failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure_info: Option<FailureInfo>,
    /// Number of replicas with the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copies: Option<ModelCopies>,
}

/// Progress from the active model to the one in the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TransitionStatus {
    /// The active model is the one in the spec.
    #[default]
    UpToDate,
    /// The model in the spec is being rolled out.
    InProgress,
    /// The model in the spec failed to load.
    BlockedByFailedLoad,
    /// The spec is invalid or was refused.
    InvalidSpec,
    /// An empty value, which KServe may have written.
    #[serde(rename = "")]
    Unset,
}

/// States of the active model and of the one in the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelStates {
    /// State of the model that serves now.
    pub active_model_state: ModelState,
    /// State of the model in the spec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_model_state: Option<ModelState>,
}

/// State of a model on its replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ModelState {
    /// No replica has been started yet.
    #[default]
    Pending,
    /// Scaled to zero; the next request loads the model.
    Standby,
    /// A replica is loading the model.
    Loading,
    /// At least one replica has the model.
    Loaded,
    /// No replica could load the model.
    FailedToLoad,
    /// An empty value, which KServe may have written.
    #[serde(rename = "")]
    Unset,
}

/// Details of a failure to load or serve a model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FailureInfo {
    /// Name of the failed pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// Class of the failure, machine-readable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<FailureReason>,
    /// Description of the failure for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Name of the failed revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_revision_name: Option<String>,
    /// Time of the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Exit status of the failed container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// Class of a failure, machine-readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum FailureReason {
    /// The runtime could not load the model.
    ModelLoadFailed,
    /// The runtime does not start or does not answer.
    RuntimeUnhealthy,
    /// The named runtime is disabled.
    RuntimeDisabled,
    /// No runtime supports the format, version and protocol.
    NoSupportingRuntime,
    /// No runtime has the given name.
    RuntimeNotRecognized,
    /// The spec is invalid or was refused.
    InvalidPredictorSpec,
}

/// Number of replicas with a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelCopies {
    /// Number of replicas that failed to load the model.
    pub failed_copies: i32,
    /// Number of ready replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_copies: Option<i32>,
}

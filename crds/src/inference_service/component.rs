//! Fields that predictor, transformer and explainer share.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DeploymentStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AutoScaling, Logger, TargetKind};
use crate::pod;

/// Scaling, traffic split, batching and logging of a component.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Minimum number of replicas. 0 lets the component scale to zero when idle; the next request starts it again.
    /// Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Maximum number of replicas. Default 0: no limit. A maximum below an explicit minimum is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// Maximum load assumed per replica, in the unit of `scaleMetric`. Ignored without `scaleMetric`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_target: Option<i32>,
    /// Metric of `scaleTarget`: `concurrency` or `rps` cap the load assumed per replica; `cpu` and `memory` are
    /// ignored. Default: replicas are scaled by queue delay alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_metric: Option<ScaleMetric>,
    /// Measure of `scaleTarget`, for `cpu` and `memory`. Ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_metric_type: Option<TargetKind>,
    /// Metrics and behaviour as in HPA and KEDA. Metrics are ignored, because replicas are scaled by queue delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_scaling: Option<Box<AutoScaling>>,
    /// Maximum number of requests in flight at one replica; further requests wait in the gateway. Default 0: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_concurrency: Option<i64>,
    /// Maximum duration of a request in seconds, queueing included. Default 0: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Share of the requests for the newest revision, 0 to 100 percent; the previously rolled out revision receives the
    /// rest. Removing the field promotes the newest revision. Default: the newest revision receives all requests once
    /// it is ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_traffic_percent: Option<i32>,
    /// Logging of requests and responses as CloudEvents. Ignored: requests are served and not logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<Box<Logger>>,
    /// Batching in the gateway, for runtimes that do not batch themselves. Default: no batching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batcher: Option<Batcher>,
    /// Labels added to the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations added to the pods. Scaling annotations apply to this component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// Strategy for replacing pods, a DeploymentStrategy of `apps/v1`. Ignored: a revision's pods are replaced one by
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::object::<DeploymentStrategy>")]
    pub deployment_strategy: Option<DeploymentStrategy>,
}

/// Metric that `scaleTarget` refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScaleMetric {
    /// CPU utilization of the pods, in percent.
    Cpu,
    /// Memory utilization of the pods, in percent.
    Memory,
    /// Requests in flight at one replica.
    Concurrency,
    /// Requests per second at one replica.
    Rps,
}

/// Batching in the gateway, for runtimes that do not batch themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batcher {
    /// Maximum number of items in a batch. Default 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_batch_size: Option<i32>,
    /// Maximum time that an item waits for the batch to fill, in milliseconds. Default 5000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_latency: Option<i32>,
    /// Maximum duration of a batch in seconds. Ignored: the service's timeout applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout: Option<i32>,
}

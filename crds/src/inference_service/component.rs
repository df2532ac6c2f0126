//! What predictor, transformer and explainer have in common.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::DeploymentStrategy;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AutoScaling, Logger, TargetKind};
use crate::pod;

/// How a component is scaled, split, batched and logged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Replicas at least; 0 lets it sleep when nobody asks. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// Replicas at most; 0 or absent sets no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i32>,
    /// Value of the scale metric to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_target: Option<i32>,
    /// What replicas are scaled by; absent means queue delay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_metric: Option<ScaleMetric>,
    /// How the scale target is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_metric_type: Option<TargetKind>,
    /// Metrics and behaviour in the words of HPA and KEDA.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_scaling: Option<Box<AutoScaling>>,
    /// Requests in flight at one replica; 0 or absent sets no limit of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_concurrency: Option<i64>,
    /// Seconds a request may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
    /// Share of the requests, in percent, that the newest revision gets; the last one rolled out
    /// gets the rest. Absent gives it all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_traffic_percent: Option<i32>,
    /// Where requests and responses are logged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logger: Option<Box<Logger>>,
    /// Batching in front of a runtime that does not batch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batcher: Option<Batcher>,
    /// Labels of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// How pods are replaced: Kubernetes' DeploymentStrategy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::object::<DeploymentStrategy>")]
    pub deployment_strategy: Option<DeploymentStrategy>,
}

/// What replicas are scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScaleMetric {
    /// CPU time used.
    Cpu,
    /// Memory used.
    Memory,
    /// Requests in flight.
    Concurrency,
    /// Requests per second.
    Rps,
}

/// Batching in front of a runtime that does not batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Batcher {
    /// Items in a batch at most. Default 32.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_batch_size: Option<i32>,
    /// Milliseconds an item waits for others at most. Default 5000.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub max_latency: Option<i32>,
    /// Seconds a batch may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub timeout: Option<i32>,
}

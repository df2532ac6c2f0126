//! `autoScaling`: metrics and behaviour as in HPA and KEDA.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod;

/// Metrics and behaviour as in HPA and KEDA. Metrics are accepted for compatibility and ignored, because replicas are
/// scaled by queue delay. `behavior` limits the rate of scaling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoScaling {
    /// Metrics to scale on; the one that requires the most replicas wins. Ignored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Limits on the rate of scaling, a HorizontalPodAutoscalerBehavior of `autoscaling/v2`. A direction that is not
    /// given is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::object::<HorizontalPodAutoscalerBehavior>")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// One metric; `type` says which of the other fields is set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Source of the metric: `Resource`, `External` or `PodMetric`.
    #[serde(rename = "type")]
    pub kind: MetricKind,
    /// CPU or memory of the pods; set for type `Resource`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetricSource>,
    /// Query to a metrics server; set for type `External`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetricSource>,
    /// Metric exported by the pods; set for type `PodMetric`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub podmetric: Option<PodMetricSource>,
}

/// Source of a metric to scale on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricKind {
    /// CPU or memory of the pods.
    Resource,
    /// A query to a metrics server outside the pods.
    External,
    /// A metric exported by the pods.
    PodMetric,
}

/// CPU or memory of the pods, and its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceMetricSource {
    /// The resource: `cpu` or `memory`.
    pub name: ResourceMetric,
    /// Target value of the metric.
    pub target: MetricTarget,
}

/// A resource that replicas are scaled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceMetric {
    /// CPU time of the pods.
    Cpu,
    /// Memory of the pods.
    Memory,
}

/// A query to a metrics server, and its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetricSource {
    /// The query and its server.
    pub metric: ExternalMetric,
    /// Credentials for the metrics server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_ref: Option<ExternalAuthentication>,
    /// Target value of the metric.
    pub target: MetricTarget,
}

/// A query to a metrics server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetric {
    /// Kind of metrics server: `prometheus` or `graphite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<MetricsBackend>,
    /// URL of the metrics server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    /// Query that yields the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Namespace of the query, for servers that need one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Kind of external metrics server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricsBackend {
    /// A server with the Prometheus API.
    Prometheus,
    /// A server with the Graphite API.
    Graphite,
}

/// Credentials for a metrics server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthentication {
    /// Object that holds the credentials.
    pub authentication_ref: AuthenticationReference,
    /// Authentication scheme: `bearer`, `basic` or `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_modes: Option<String>,
}

/// Reference to an object with credentials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuthenticationReference {
    /// Name of the referenced object.
    pub name: String,
}

/// A metric exported by the pods, and its target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodMetricSource {
    /// The metric and its collector.
    pub metric: PodMetric,
    /// Target value of the metric.
    pub target: MetricTarget,
}

/// A query to the collector of the pods' metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMetric {
    /// Kind of collector; only `opentelemetry`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<PodMetricsBackend>,
    /// URL of the collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    /// Names of the metrics to collect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_names: Option<Vec<String>>,
    /// Query that yields the metric.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Aggregation over time: `last_one`, `avg`, `max`, `min`, `rate` or `count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_over_time: Option<String>,
}

/// Kind of collector of the pods' metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PodMetricsBackend {
    /// The OpenTelemetry collector, by OTLP.
    OpenTelemetry,
}

/// Target value that scaling keeps a metric at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricTarget {
    /// Measure of the target; selects one of the other fields.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// Target for the metric itself, as a quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// Target for the metric divided by the number of replicas, as a quantity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// Target in percent of the resource that the pods request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

/// Measure of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TargetKind {
    /// Percent of the resource that the pods request.
    Utilization,
    /// The value of the metric itself.
    Value,
    /// The metric divided by the number of replicas.
    AverageValue,
}

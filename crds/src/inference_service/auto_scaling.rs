//! `autoScaling`: metrics and behaviour in the words of HPA and KEDA.

use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscalerBehavior;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::pod;

/// Metrics and behaviour in the words of HPA and KEDA.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoScaling {
    /// What is measured; the metric that asks for most replicas decides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<Metric>,
    /// Kubernetes' HorizontalPodAutoscalerBehavior.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::object::<HorizontalPodAutoscalerBehavior>")]
    pub behavior: Option<HorizontalPodAutoscalerBehavior>,
}

/// One metric; the field that its type names is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Where the metric comes from.
    #[serde(rename = "type")]
    pub kind: MetricKind,
    /// A resource of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceMetricSource>,
    /// A metric of something outside the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalMetricSource>,
    /// A metric of the pods' own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub podmetric: Option<PodMetricSource>,
}

/// Where a metric comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum MetricKind {
    /// CPU or memory.
    Resource,
    /// Something outside the cluster.
    External,
    /// The pods' own metrics.
    PodMetric,
}

/// CPU or memory of the pods.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceMetricSource {
    /// Which resource.
    pub name: ResourceMetric,
    /// Value to keep.
    pub target: MetricTarget,
}

/// A resource that replicas are scaled by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ResourceMetric {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
}

/// A metric of something outside the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetricSource {
    /// Which metric.
    pub metric: ExternalMetric,
    /// How the metrics server knows the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub authentication_ref: Option<ExternalAuthentication>,
    /// Value to keep.
    pub target: MetricTarget,
}

/// A query to a metrics server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalMetric {
    /// Kind of server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<MetricsBackend>,
    /// Address of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    /// The query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// Namespace, for servers whose queries have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Kind of metrics server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricsBackend {
    /// Prometheus.
    Prometheus,
    /// Graphite.
    Graphite,
}

/// How a metrics server knows the caller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalAuthentication {
    /// What holds the credentials.
    pub authentication_ref: AuthenticationReference,
    /// `bearer`, `basic` or `tls`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth_modes: Option<String>,
}

/// Names what holds the credentials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AuthenticationReference {
    /// Its name.
    pub name: String,
}

/// A metric of the pods' own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodMetricSource {
    /// Which metric.
    pub metric: PodMetric,
    /// Value to keep.
    pub target: MetricTarget,
}

/// A query to what collects the pods' metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodMetric {
    /// Kind of collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<PodMetricsBackend>,
    /// Address of the collector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_address: Option<String>,
    /// Metrics to collect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric_names: Option<Vec<String>>,
    /// The query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// `last_one`, `avg`, `max`, `min`, `rate` or `count`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation_over_time: Option<String>,
}

/// Kind of collector of pods' metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PodMetricsBackend {
    /// An OpenTelemetry collector.
    OpenTelemetry,
}

/// Value of a metric to keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricTarget {
    /// Which of the other fields counts.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<TargetKind>,
    /// The metric itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Quantity>,
    /// The metric divided by the replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_value: Option<Quantity>,
    /// Percent of what the pods request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_utilization: Option<i32>,
}

/// How a target is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TargetKind {
    /// Percent of what the pods request.
    Utilization,
    /// The metric itself.
    Value,
    /// The metric divided by the replicas.
    AverageValue,
}

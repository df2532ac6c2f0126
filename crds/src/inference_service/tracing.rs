//! `tracing`: OpenTelemetry traces of the servers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// OpenTelemetry traces of the servers, configured by their environment variables. An empty mapping enables traces with
/// the defaults; without it there are none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tracing {
    /// Collector that receives the traces by OTLP, an http or https URL; `OTEL_EXPORTER_OTLP_ENDPOINT`. Default
    /// `http://otel-collector:4317`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^https?://[^/?#\s]+[^\s]*$"))]
    pub exporter_endpoint: Option<String>,
    /// Sampler that chooses the requests to trace; `OTEL_TRACES_SAMPLER`. Default `parentbased_traceidratio`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<Sampler>,
    /// Argument of the sampler, such as the share of requests; `OTEL_TRACES_SAMPLER_ARG`. Default `0.05`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler_arg: Option<String>,
    /// Exporter of the traces; `OTEL_TRACES_EXPORTER`. Default `otlp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exporter: Option<String>,
}

/// Sampler that chooses the requests to trace, with OpenTelemetry's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// Every request is traced.
    AlwaysOn,
    /// No request is traced.
    AlwaysOff,
    /// A share of the requests is traced.
    #[serde(rename = "traceidratio")]
    TraceIdRatio,
    /// The caller's decision; without one, every request is traced.
    #[serde(rename = "parentbased_always_on")]
    ParentBasedAlwaysOn,
    /// The caller's decision; without one, no request is traced.
    #[serde(rename = "parentbased_always_off")]
    ParentBasedAlwaysOff,
    /// The caller's decision; without one, a share of the requests is traced.
    #[default]
    #[serde(rename = "parentbased_traceidratio")]
    ParentBasedTraceIdRatio,
}

impl Sampler {
    /// The sampler's value of the environment variable.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::AlwaysOn => "always_on",
            Self::AlwaysOff => "always_off",
            Self::TraceIdRatio => "traceidratio",
            Self::ParentBasedAlwaysOn => "parentbased_always_on",
            Self::ParentBasedAlwaysOff => "parentbased_always_off",
            Self::ParentBasedTraceIdRatio => "parentbased_traceidratio",
        }
    }
}

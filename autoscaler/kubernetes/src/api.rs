//! Kubernetes' metrics APIs, served as an aggregated API server; HorizontalPodAutoscalers read them.

mod custom;
mod discovery;
mod external;
mod failure;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::routing::get;
use kube::Client;

use crate::Loads;

/// Path of the API for metrics that belong to pods and services of the cluster.
pub const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";

/// Path of the API for metrics that belong to no object of the cluster.
pub const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// The loads and the client from which responses are made.
#[derive(Clone)]
pub struct MetricsApi {
    loads: Loads,
    client: Client,
}

impl MetricsApi {
    /// Creates the APIs for these loads. The client lists the pods that a request selects.
    #[must_use]
    pub fn new(loads: Loads, client: Client) -> Self {
        Self { loads, client }
    }

    /// Returns the routes. The server must accept only the API server as its client, which has already authorized the
    /// caller.
    pub fn router(self) -> Router {
        let pods = format!("{CUSTOM}/namespaces/{{namespace}}/pods/{{name}}/{{metric}}");
        let objects = format!("{CUSTOM}/namespaces/{{namespace}}/{{resource}}/{{name}}/{{metric}}");
        let external = format!("{EXTERNAL}/namespaces/{{namespace}}/{{metric}}");
        Router::new()
            .route(CUSTOM, get(discovery::custom))
            .route(EXTERNAL, get(discovery::external))
            .route(&pods, get(custom::of_pods))
            .route(&objects, get(custom::of_service))
            .route(&external, get(external::of_services))
            .fallback(failure::unknown_path)
            .with_state(self)
    }
}

/// Formats a number as a Kubernetes quantity: whole, or in thousandths (`1500m`), rounded up so that a small value is
/// not zero.
fn quantity(value: f64) -> String {
    // A value that exceeds an i64 in thousandths cannot be a measurement.
    let thousandths = (value.max(0.0) * 1000.0 - ROUNDING).ceil().min(1e18) as i64;
    if thousandths % 1000 == 0 { (thousandths / 1000).to_string() } else { format!("{thousandths}m") }
}

/// Rounding error of a floating-point product, so that 0.3 becomes 300m.
const ROUNDING: f64 = 1e-6;

//! Kubernetes' metrics APIs, as an aggregated API server answers them: what a HorizontalPodAutoscaler reads.

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

/// Path of the API of metrics that belong to pods and services of the cluster.
pub const CUSTOM: &str = "/apis/custom.metrics.k8s.io/v1beta2";

/// Path of the API of metrics that belong to no object.
pub const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// The sources that answers are made from.
#[derive(Clone)]
pub struct MetricsApi {
    loads: Loads,
    client: Client,
}

impl MetricsApi {
    /// The APIs of these loads; the client lists the pods that a question is about.
    #[must_use]
    pub fn new(loads: Loads, client: Client) -> Self {
        Self { loads, client }
    }

    /// The routes. Whoever serves them lets in the API server only, which has checked the caller's rights.
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

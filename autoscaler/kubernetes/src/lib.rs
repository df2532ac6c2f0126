//! Measured loads of services, for other autoscalers: HorizontalPodAutoscalers and KEDA.
//!
//! ```text
//!   gateways ──reports──► window ──► loads ─┬─► api: custom.metrics.k8s.io, external.metrics.k8s.io ◄── HPA
//!                                           └─► scaler: externalscaler.ExternalScaler (gRPC) ◄───────── KEDA
//! ```
//!
//! `window` and `metric` are the pure middle: the load of the last 30 s, and the metrics computed from it. Everything
//! here is read-only: the other autoscaler scales, and Weir's own law does not touch services that another autoscaler
//! scales.

mod api;
mod callers;
mod clock;
mod loads;
mod metric;
mod port;
mod scaler;
mod selector;
mod window;
#[cfg(test)]
mod world;

pub use api::{CUSTOM, EXTERNAL, MetricsApi};
pub use loads::Loads;
pub use port::{ProvidedApi, metrics_certificates, serve_metrics};
pub use scaler::{ExternalScalerService, PATH, external_scaler};

/// Messages and server of KEDA's external scaler, generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::pedantic, clippy::too_many_lines, reason = "generated")]
mod proto {
    tonic::include_proto!("externalscaler");
}

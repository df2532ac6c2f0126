//! Measured loads of services, for the autoscalers that people already have: HorizontalPodAutoscalers and KEDA.
//!
//! ```text
//!   gateways ──reports──► window ──► loads ─┬─► api: custom.metrics.k8s.io, external.metrics.k8s.io ◄── HPA
//!                                           └─► scaler: externalscaler.ExternalScaler (gRPC) ◄───────── KEDA
//! ```
//!
//! `window` and `metric` are the pure middle: the load of the last half minute, and what of it is told. Everything here
//! is read-only: who asks scales, and Weir's own law leaves alone what another sets.

mod api;
mod callers;
mod loads;
mod metric;
mod port;
mod quantity;
mod scaler;
mod selector;
mod window;
#[cfg(test)]
mod world;

pub use api::{CUSTOM, EXTERNAL, MetricsApi};
pub use loads::Loads;
pub use port::{ProvidedApi, metrics_certificates, serve_metrics};
pub use scaler::{ExternalScalerService, PATH, external_scaler};

/// Messages and server of KEDA's external scaler, as generated from `proto/`.
#[allow(missing_docs, unreachable_pub, clippy::pedantic, clippy::too_many_lines, reason = "generated")]
mod proto {
    tonic::include_proto!("externalscaler");
}

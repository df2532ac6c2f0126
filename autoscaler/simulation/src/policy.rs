//! Scaling policies: Weir's control law, and reimplementations of other autoscalers.

mod aibrix;
mod dynamo;
mod fixed;
mod hpa;
mod keda;
mod kpa;
mod ray;
mod weir;
mod window;
mod wva;

use weir_autoscaler::Sample;

pub use aibrix::AibrixPolicy;
pub use dynamo::DynamoPolicy;
pub use fixed::FixedPolicy;
pub use hpa::HpaPolicy;
pub use keda::KedaPolicy;
pub use kpa::KpaPolicy;
pub use ray::RayPolicy;
pub use weir::WeirPolicy;
pub use wva::WvaPolicy;

/// A scaling policy. The simulation calls it once a second, and at once when a request arrives at zero replicas.
pub trait Policy {
    /// Returns the desired number of replicas.
    fn decide(&mut self, observed: &Observed) -> u32;
}

/// One observation of a simulated revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The observation that Weir's autoscaler would receive.
    pub sample: Sample,
    /// Requests queued and in flight, averaged over the sample's span, as sidecars or buffers that count them would
    /// report.
    pub concurrency: f64,
}

//! What decides how many replicas there are: the control law, and what others do.

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

/// A law that says how many replicas there should be. It is asked once a second, and at once when a request
/// comes at zero.
pub trait Policy {
    /// The number of replicas from now on.
    fn decide(&mut self, observed: &Observed) -> u32;
}

/// One observation of a simulated revision.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The observation as the autoscaler has it.
    pub sample: Sample,
    /// Requests in the queue and at replicas, averaged over the sample's span, as sidecars and buffers that
    /// count them would say.
    pub concurrency: f64,
}

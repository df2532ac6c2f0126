//! Comparison of scaling policies: the same requests and the same replicas, scaled by different policies.
//!
//! ```text
//!   Trace ─► Workload ─► World::run ◄─ Policy (Weir's own decide, and what others do)
//!                │            │
//!                ▼            ▼
//!             Frontier      Run ─► Score
//! ```
//!
//! The world is simulated without a clock. Weir's control law in it is the function that the autoscaler runs.

mod chance;
mod chart;
mod contender;
mod lengths;
mod oracle;
mod policy;
mod request_log;
mod score;
mod service;
mod trace;
mod wave;
mod workload;
mod world;

pub use chart::{PolicyPoint, Scatter, scatter, timeline};
pub use contender::{Contender, UnknownContender};
pub use lengths::Lengths;
pub use oracle::{Bins, Frontier};
pub use policy::{
    AibrixPolicy, DynamoPolicy, FixedPolicy, HpaPolicy, KedaPolicy, KpaPolicy, Observed, Policy, RayPolicy, WeirPolicy,
    WvaPolicy,
};
pub use request_log::{BadRow, LogError, LogOptions, RequestLog, Resolution, TimeUnit};
pub use score::Score;
pub use service::Service;
pub use trace::{Trace, TraceError};
pub use wave::{Shape, Wave};
pub use workload::{Standard, Workload};
pub use world::{Frame, Machines, Run, SpotGpus, Starts, Wait, World};

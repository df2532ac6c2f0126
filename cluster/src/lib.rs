//! Data exchanged between the parts of the platform, and the traits that exchange it: desired services, snapshots of
//! what runs, load reports.
//!
//! ```text
//!   controller ──Apply──►┌─────────┐──Directory: Snapshot──► gateway
//!                        │ cluster │                            │
//!   autoscaler ──Scale──►└─────────┘◄──────── Report ───────────┘
//!        ▲                                      │
//!        └───────────────── Reports ────────────┘
//! ```
//!
//! The traits are small and have several implementations: child processes on one machine, Kubernetes, and, for tests,
//! the in-memory `Fake` (feature `fake`). The test suite in `contract` checks the behaviour common to all of them.
//! Every watched value is a latest value, never a queue: a slow reader skips intermediate states and blocks no writer.

mod apply;
mod error;
mod image_name;
mod lease;
mod memory;
mod name;
mod nearest;
mod relocate;
mod report;
mod reports;
mod route;
mod runtime_arguments;
mod scale_in;
mod scaling;
mod snapshot;
mod workload;

pub use apply::{Applied, Apply, Desired};
pub use error::ClusterError;
pub use image_name::image_name;
pub use lease::{HeldLease, Lease, LeaseEnd};
pub use memory::{Edit, Gateways, Leases, Ledger, Membership};
#[cfg(feature = "fake")]
pub use memory::{Fake, Readiness, contract};
pub use name::{ComponentKind, Host, RevisionName, ServiceName, Tag};
pub use nearest::nearest;
pub use relocate::relocate;
pub use report::{Activity, BatchTimes, Batches, Histogram, ReplicaLoad, ReplicaLoads, Report, UntrustedReplicas};
pub use reports::{LatestReports, Reports, UntrustedByRevision, replica_loads, untrusted_replicas};
pub use route::{
    Batching, Conflict, ControlRoutes, Destination, Domains, Entrance, HostClaim, Mirror, OpenAiApi, Route, Routes,
    Split, Tagged, Target,
};
pub use runtime_arguments::check_runtime_arguments;
pub use scale_in::{ScaleInCandidate, choose_scale_in};
pub use scaling::{
    ChangeLimit, Economy, OtherAutoscaler, PolicySelect, RatePolicy, ReplicasField, Scale, ScaleTarget,
    ScalingBehavior, ScalingPolicy, ScalingRules,
};
pub use snapshot::{
    Address, Directory, Endpoints, Failure, FailureReason, FailureReport, Gateway, GpuSharing, Outlook, Phase, Replica,
    Revision, Revisions, SharedGpu, Snapshot, Transport,
};
pub use workload::{ContainerPorts, Identity, PodTemplate, ReadyCall, Storage, Workload};

//! What the parts of the platform tell each other: what should run, what runs where, how busy it is.
//!
//! ```text
//!   controller ──Apply──►┌─────────┐──Directory: Snapshot──► gateway
//!                        │ cluster │                            │
//!   autoscaler ──Scale──►└─────────┘◄──────── Report ───────────┘
//!        ▲                                      │
//!        └───────────────── Reports ────────────┘
//! ```
//!
//! The traits are small and have several implementations: child processes on one machine, Kubernetes,
//! and, for tests, the in-memory `Fake` (feature `fake`). The suite in `contract` says what they have
//! in common. Everything watched is a latest value, never a queue: who looks late sees less, and waits
//! for nobody.

mod apply;
#[cfg(feature = "fake")]
pub mod contract;
mod directory;
mod error;
#[cfg(feature = "fake")]
mod fake;
mod gateways;
mod lease;
mod ledger;
mod name;
mod report;
mod reports;
mod route;
mod scale;
mod snapshot;
mod workload;

pub use apply::{Applied, Apply, Desired};
pub use directory::Directory;
pub use error::ClusterError;
#[cfg(feature = "fake")]
pub use fake::{Fake, Starts};
pub use gateways::{Gateways, Membership};
pub use lease::{Held, Lease, Leases};
pub use ledger::{Edit, Ledger};
pub use name::{Host, RevisionName, ServiceName, Tag};
pub use report::{Activity, BatchTimes, Batches, Histogram, Report};
pub use reports::{LatestReports, Reports};
pub use route::{Batching, Conflict, Destination, Mirror, Route, Routes, Split, Tagged, Target};
pub use scale::Scale;
pub use snapshot::{
    Address, Endpoints, Failure, FailureReason, Gateway, Phase, ReadyCall, Replica, Revision,
    Revisions, Snapshot,
};
pub use workload::{ContainerPorts, Identity, Storage, Workload};

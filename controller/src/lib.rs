//! The control plane: from declared services to workloads, and from the cluster's state to the services' status.
//!
//! ```text
//!   Source ─► validate ─► revise ─► step ─► plan ─► apply ─► status ─► Source
//!   (files, or  (pure)     (pure)   (pure)  (pure)     │      (pure)
//!    an API server)                                 cluster
//! ```
//!
//! The middle is functions of values: they read no clock and do no IO. [`Controller`] is the loop
//! around them, over the traits of `weir_cluster` and [`Source`]; it is the same for child processes
//! on one machine and for Kubernetes.

mod clock;
mod components;
mod declaration;
mod error;
mod event;
pub mod files;
#[cfg(test)]
mod fixtures;
mod history;
mod manifest;
mod plan;
mod reconcile;
mod rollout;
mod runtimes;
mod source;
mod status;
mod turns;

pub use declaration::{Declaration, DeclaredService};
pub use error::ControllerError;
pub use event::{Event, EventType, Subject};
pub use history::{Canary, History, LoadState, RevisionRecord, RuntimeChange, RuntimeRoll, WrittenHistory, revise};
pub use manifest::component_field::component_field;
pub use manifest::duration::parse as parse_duration;
pub use manifest::field_error::{Cure, FieldError, IgnoredField, ValidationErrors};
pub use manifest::scaling::{ScaledBy, Scaling};
pub use manifest::service::{DEFAULT_NAMESPACE, KeptObject, ModelStamps, Service};
pub use manifest::validate::{
    AutoUpdate, CanaryVariant, Exposure, ManifestIdentity, Platform, STORAGE_URI, UrlScheme, Validated, Variant,
    uri_of_store, uri_of_variable, validate, validate_runtime,
};
pub use plan::{Plan, Share, plan};
pub use reconcile::{Controller, LEASE, Leadership};
pub use rollout::{
    CanaryShare, Candidate, CandidateShare, Capacity, Evidence, Limits, Placement, PreviousRevision, Rollout, Sample,
    Stage, Step, Strategy, Surge, Transition, step,
};
pub use runtimes::{Runtime, Runtimes, Scope, ServerType, Unserved};
pub use source::{Propagation, Source, Stored};
pub use status::{Refusal, StatusInputs, status};

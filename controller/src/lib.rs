//! The control plane: from what is declared to what runs, and back to what is known of it.
//!
//! ```text
//!   Source ─► dereference ─► validate ─► revise ─► step ─► plan ─► apply ─► status ─► Source
//!   (files, or                  (pure)     (pure)   (pure)  (pure)     │      (pure)
//!    an API server)                                                 cluster
//! ```
//!
//! The middle is functions of values: they read no clock and do no IO. [`Controller`] is the loop
//! around them, over the traits of `weir_cluster` and [`Source`]; it is the same for child processes
//! on one machine and for Kubernetes.

mod annotations;
mod duration;
mod error;
pub mod files;
#[cfg(test)]
mod fixtures;
mod history;
mod plan;
mod pod;
mod reconcile;
mod rollout;
mod runtimes;
mod scaling;
mod source;
mod status;
mod validate;

pub use error::ControllerError;
pub use history::{Canary, History, Loaded, Record, revise};
pub use plan::{Plan, Share, plan};
pub use reconcile::Controller;
pub use rollout::{
    Candidate, Evidence, Limits, PreviousRevision, Rollout, Sample, Stage, Step, Strategy,
    Transition, step,
};
pub use runtimes::{Runtime, Runtimes, Scope, Unserved};
pub use scaling::{ScaledBy, Scaling};
pub use source::{Declaration, Event, EventKind, Service, Source, Subject};
pub use status::{Seen, status};
pub use validate::{
    CanaryVariant, Exposure, FieldError, IgnoredField, ModelNames, Platform, Run, Validated,
    ValidationErrors, Variant, validate, validate_runtime,
};

//! The control plane: from what is declared to what runs, and back to what is known of it.
//!
//! ```text
//!   Declared ─► dereference ─► validate ─► revise ─► step ─► plan ─► apply ─► status ─► Declared
//!   (files, or                  (pure)     (pure)   (pure)  (pure)     │      (pure)
//!    an API server)                                                 cluster
//! ```
//!
//! The middle is functions of values: they read no clock and do no IO. [`Controller`] is the loop
//! around them, over the traits of `weir_cluster` and [`Declared`]; it is the same for child processes
//! on one machine and for Kubernetes.

mod annotations;
mod declared;
mod duration;
mod error;
pub mod files;
mod history;
mod plan;
mod pod;
mod reconcile;
mod rollout;
mod runtimes;
#[cfg(test)]
mod sample;
mod scaling;
mod status;
mod validate;

pub use declared::{Declaration, Declared, Event, EventKind, Service, Subject};
pub use error::ControllerError;
pub use history::{Canary, History, Loaded, Record, revise};
pub use plan::{Plan, Share, plan};
pub use reconcile::{Bounds, Controller};
pub use rollout::{
    Candidate, Evidence, Former, Limits, Move, Rollout, Sample, Stage, Step, Strategy, step,
};
pub use runtimes::{Runtime, Runtimes, Scope, Unserved};
pub use scaling::{Economy, Metric, ScaledBy, Scaling};
pub use status::{Seen, status};
pub use validate::{
    CanaryVariant, Fault, Faults, ModelNames, Note, Platform, Reach, Run, Valid, Variant, validate,
    validate_runtime,
};

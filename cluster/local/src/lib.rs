//! The cluster on this machine: each replica is a child process, and models are files of this machine or
//! downloaded to it.
//!
//! ```text
//!   Local (handle) ─Request─► actor ──starts, stops──► replica task ──► sh ──exec──► the command
//!                             │  ◄──────Event──────────┘   probe, backoff     │
//!                             ▼                            logs               └─ watcher: kills the
//!                      watch<Snapshot>                                           group when we die
//! ```
//!
//! What a pod means for a process is decided once, in `launch_spec`; how a replica lives, in `lifecycle`; which
//! replicas start and stop, in `reconcile`. These read no clock and touch nothing. The replica's task and
//! the actor do what they say.

mod actor;
mod drain;
mod error;
mod expand;
mod launch_spec;
mod lifecycle;
mod local;
mod log;
mod names;
mod options;
mod ports;
mod probe;
mod process;
mod program;
mod reconcile;
mod replica;
mod storage;

pub use launch_spec::{Inspection, inspect};
pub use local::Local;
pub use options::{Gpu, Options};
pub use program::is_program;

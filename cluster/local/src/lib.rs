//! The cluster on this machine: each replica is a child process, and models are local or downloaded files.
//!
//! ```text
//!   Local (handle) ─Request─► actor ──starts, stops──► replica task ──► sh ──exec──► the command
//!                             │  ◄──────Event──────────┘   probe, backoff     │
//!                             ▼                            logs               └─ watcher: kills the
//!                      watch<Snapshot>                                           group when Weir dies
//! ```
//!
//! Three modules decide without a clock and without side effects: `launch_spec` turns a pod into a process, `lifecycle`
//! tracks a replica's phase, and `reconcile` chooses the replicas to start and stop. The replica's task and the actor
//! carry these decisions out.

mod actor;
mod clock;
mod drain;
mod expand;
mod launch_spec;
mod lifecycle;
mod local;
mod log;
mod options;
mod ports;
mod predictor_addresses;
mod probe;
mod process;
mod program;
mod reconcile;
mod replica;
mod storage;

pub use launch_spec::{Inspection, inspect};
pub use local::Local;
pub use options::{Gpu, Options};
pub use predictor_addresses::PredictorAddresses;
pub use program::is_program;

//! The cluster on this machine: each replica is a child process, and models are files of this machine or
//! downloaded to it.
//!
//! ```text
//!   Local (handle) ──Ask──► actor ──starts, stops──► replica task ──► sh ──exec──► the command
//!                             │  ◄──────Event──────────┘   probe, backoff     │
//!                             ▼                            logs               └─ watcher: kills the
//!                      watch<Snapshot>                                           group when we die
//! ```
//!
//! What a pod means for a process is decided once, in `recipe`; how a replica lives, in `life`; which
//! replicas start and stop, in `steps`. These read no clock and touch nothing. The replica's task and
//! the actor do what they say.

mod actor;
mod cluster;
mod expand;
mod life;
mod log;
mod names;
mod options;
mod ports;
mod probe;
mod process;
mod program;
mod recipe;
mod replica;
mod steps;
mod storage;

pub use cluster::Local;
pub use options::Options;
pub use program::is_program;
pub use recipe::check;

//! Autoscaler: sets the replicas of each revision from queue delay and measured capacity, down to zero and back.
//!
//! ```text
//!   snapshot (watch) ─┐                ┌─ ScalingPolicy (in the snapshot), Memory
//!                     ├─► collect ─► Sample ─► decide ─► Decision ─► Scale
//!   reports  (watch) ─┘
//! ```
//!
//! [`decide`] is a pure function; the loop ([`Autoscaler`]) and the simulated world of `weir-simulation` call the same
//! one. The number of replicas follows the rate of requests and the measured capacity of a replica. The queue delay is
//! the target that the number must meet, and it corrects errors of the calculation.

mod account;
mod clock;
mod collect;
mod decide;
mod filled;
mod memory;
mod metrics;
mod run;
mod sample;
mod unplaced;

pub use account::Account;
pub use decide::{Decision, Decisions, LimitedBy, Reason, Terms, decide};
pub use memory::{Memory, Throughput};
pub use run::{Autoscaler, LEASE};
pub use sample::{Coverage, Load, Replicas, Sample};
pub use unplaced::Unplaced;

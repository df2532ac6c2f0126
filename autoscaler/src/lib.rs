//! How many replicas a revision has: from queue delay and measured capacity, down to zero and back.
//!
//! ```text
//!   snapshot (watch) ─┐                ┌─ ScalingPolicy (in the snapshot), Memory
//!                     ├─► collect ─► Sample ─► decide ─► Decision ─► Scale
//!   reports  (watch) ─┘
//! ```
//!
//! [`decide`] is a function of values: the loop ([`Autoscaler`]) and the world of `weir-simulation` run the
//! same one. The number of replicas follows the requests that come and what a
//! replica was measured to do; the queue's delay is what must hold, and what corrects the rest.

mod account;
mod collect;
mod decide;
mod economy;
mod memory;
mod metrics;
mod run;
mod sample;
mod unplaced;

pub use account::Account;
pub use decide::{Decision, Decisions, HeldBy, Reason, Terms, decide};
pub use memory::{Memory, Throughput};
pub use run::{Autoscaler, LEASE};
pub use sample::{Coverage, Load, Replicas, Sample};
pub use unplaced::Unplaced;

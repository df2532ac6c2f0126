//! How many replicas a revision has: from queue delay and measured capacity, down to zero and back.
//!
//! ```text
//!   policies (watch) ─┐
//!   reports  (watch) ─┼─► collect ─► Sample ─► decide ─► Decision ─► Scale
//!   snapshot (watch) ─┘                     Policy, Memory
//! ```
//!
//! [`decide`] is a function of values: the loop ([`Autoscaler`]) and the discrete-event world
//! ([`simulate`]) run the same one. The number of replicas follows the requests that come and what a
//! replica was measured to do; the queue's delay is what must hold, and what corrects the rest.

mod collect;
mod decide;
mod error;
mod memory;
mod metrics;
mod policy;
mod run;
mod sample;
mod simulate;

pub use decide::{Because, Decision, Terms, decide};
pub use error::PolicyError;
pub use memory::Memory;
pub use policy::{Accepted, Declared, Economy, Metric, Policies, Policy};
pub use run::{Autoscaler, Decisions, LEASE};
pub use sample::{Fleet, Load, Sample, Sight};
pub use simulate::{Frame, Run, Served, Service, World, law, poisson, simulate};

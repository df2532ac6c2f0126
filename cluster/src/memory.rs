//! Clusters that live in one process: what was asked of them, their gateways and leases; for tests (feature `fake`) a
//! whole cluster, and the suite that every implementation of the traits passes.

#[cfg(feature = "fake")]
pub mod contract;
#[cfg(feature = "fake")]
mod fake;
mod gateways;
mod leases;
mod ledger;

#[cfg(feature = "fake")]
pub use fake::{Fake, Readiness};
pub use gateways::{Gateways, Membership};
pub use leases::Leases;
pub use ledger::{Edit, Ledger};

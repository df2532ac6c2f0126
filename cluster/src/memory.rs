//! In-process implementations: the ledger of desired services, the gateways and the leases of one process. For tests
//! (feature `fake`) also a whole cluster, and the contract suite that every implementation of the traits passes.

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

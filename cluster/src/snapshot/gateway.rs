//! Gateways, as they know each other.

use std::sync::Arc;

use super::Address;

/// One gateway process of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Unique among those that run.
    pub name: Arc<str>,
    /// Address for requests; the other gateways hand over to it there.
    pub serving: Address,
    /// Address for metrics and the watch of its reports.
    pub admin: Option<Address>,
}

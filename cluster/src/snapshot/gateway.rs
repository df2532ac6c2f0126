//! Gateways, as they know each other.

use std::sync::Arc;

use super::Address;

/// One gateway process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Unique among those that run.
    pub name: Arc<str>,
    /// Where it takes requests; the others hand over to it there.
    pub serving: Address,
    /// Where it serves metrics and the watch of its reports.
    pub admin: Option<Address>,
}

//! Gateways of the platform.

use std::sync::Arc;

use super::Address;

/// One gateway process of the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Name, unique among the running gateways.
    pub name: Arc<str>,
    /// Address for requests; other gateways also hand requests over to this address.
    pub serving: Address,
    /// Address of the admin port, which serves metrics and the watch of the gateway's reports; None if the gateway has
    /// no known admin port.
    pub admin: Option<Address>,
}

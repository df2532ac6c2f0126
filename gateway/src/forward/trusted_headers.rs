//! What only another gateway may say of a request: that it was handed over, that it is a copy. Whoever else says
//! so would be refused where others are handed over, or have a request that counts and is read by nobody.
//!
//! Gateways are known by their addresses, so no port of a gateway may be one through which clients pass under
//! its address.

use std::net::IpAddr;

use http::HeaderMap;
use weir_cluster::Address;

use crate::gateway::Gateway;
use crate::headers;

/// Drops what a request from this address may not say of itself.
pub(crate) fn remove_untrusted(headers: &mut HeaderMap, from: Option<IpAddr>, gateway: &Gateway) {
    let trusted = [headers::HOP, headers::MIRROR];
    if !trusted.iter().any(|name| headers.contains_key(name)) {
        return;
    }
    let (state, me) = (gateway.state.load(), &gateway.options.name);
    let others = state.snapshot.gateways.iter();
    let mut others = others.filter(|other| other.name != *me);
    if !others.any(|other| is_at(&other.serving, from)) {
        for name in trusted {
            headers.remove(name);
        }
    }
}

fn is_at(address: &Address, from: Option<IpAddr>) -> bool {
    match address {
        Address::Tcp(address) => from.is_some_and(|from| same(address.ip(), from)),
        // Its port is on the network.
        Address::Unix(_) => false,
    }
}

/// A port for both families sees IPv4 addresses as mapped ones.
fn same(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_known_by_its_address_in_either_family() {
        let gateway = Address::Tcp("10.0.0.7:80".parse().unwrap());
        let from = |text: &str| Some(text.parse().unwrap());
        assert!(is_at(&gateway, from("10.0.0.7")));
        assert!(is_at(&gateway, from("::ffff:10.0.0.7")));
        assert!(!is_at(&gateway, from("10.0.0.8")));
        assert!(!is_at(&gateway, None));
    }
}

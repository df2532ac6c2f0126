//! Headers that only other gateways may set: that a request was handed over, and that it is a copy. A client that set
//! them would be refused where others are handed over, or have its request counted as a copy.
//!
//! Gateways are known by their addresses, so no port of a gateway may be one through which clients reach it under a
//! gateway's address.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use weir_cluster::Address;
use weir_ops::header_names;

use crate::context::Context;
use crate::headers;

static OF_GATEWAYS: [HeaderName; 2] = [headers::HOP, headers::MIRROR];

/// Removes the headers that a request from this address is not trusted with.
pub(crate) fn remove_untrusted(headers: &mut HeaderMap, from: Option<IpAddr>, context: &Context) {
    if !header_names::has_any(headers, &OF_GATEWAYS) {
        return;
    }
    let (state, me) = (context.state.load(), &context.options.name);
    let others = state.snapshot.gateways.iter();
    let mut others = others.filter(|other| other.name != *me);
    if !others.any(|other| is_at(&other.serving, from)) {
        for name in &OF_GATEWAYS {
            headers.remove(name);
        }
    }
}

fn is_at(address: &Address, from: Option<IpAddr>) -> bool {
    match address {
        Address::Tcp(address) => from.is_some_and(|from| same(address.ip(), from)),
        // A gateway that serves a Unix socket sends from no address of its own.
        Address::Unix(_) => false,
    }
}

/// Compares addresses; a port for both families sees IPv4 addresses as mapped ones.
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

//! Headers that only other gateways may set: the marks of a request that was handed over, and of a mirrored copy, and the
//! name of the client that a gateway has authenticated. A client that set them could have its request refused instead of
//! handed over, counted as a copy, or accepted without a key.
//!
//! A gateway is recognized by its IP address. So no client may reach a gateway from the address of another gateway, for
//! example through a forwarding sidecar in a gateway pod.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName};
use weir_cluster::Address;
use weir_serve::header_names;

use crate::context::Context;
use crate::headers;

static GATEWAY_HEADERS: [HeaderName; 3] = [headers::HOP, headers::MIRROR, headers::CLIENT];

/// Removes the headers that only gateways may set, unless the request comes from a gateway's address.
pub(crate) fn remove_untrusted(headers: &mut HeaderMap, from: Option<IpAddr>, context: &Context) {
    if !header_names::has_any(headers, &GATEWAY_HEADERS) {
        return;
    }
    let (state, me) = (context.state.load(), &context.options.name);
    let mut others = state.snapshot.gateways.iter().filter(|other| other.name != *me);
    if !others.any(|other| is_at(&other.serving, from)) {
        for name in &GATEWAY_HEADERS {
            headers.remove(name);
        }
    }
}

fn is_at(address: &Address, from: Option<IpAddr>) -> bool {
    match address {
        Address::Tcp(address) => from.is_some_and(|from| same(address.ip(), from)),
        // A gateway that serves a Unix socket has no IP address to recognize it by.
        Address::Unix(_) => false,
    }
}

/// Compares addresses. A dual-stack port sees IPv4 addresses as mapped IPv6 addresses.
fn same(one: IpAddr, other: IpAddr) -> bool {
    one.to_canonical() == other.to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gateway_is_recognized_by_its_address_in_either_family() {
        let gateway = Address::Tcp("10.0.0.7:80".parse().unwrap());
        let from = |text: &str| Some(text.parse().unwrap());
        assert!(is_at(&gateway, from("10.0.0.7")));
        assert!(is_at(&gateway, from("::ffff:10.0.0.7")));
        assert!(!is_at(&gateway, from("10.0.0.8")));
        assert!(!is_at(&gateway, None));
    }
}

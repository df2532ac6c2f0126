//! Headers that only other gateways may set: the marks of a request that was handed over, and of a mirrored copy, and
//! the name of the client that a gateway has authenticated. A client that set them could have its request refused
//! instead of handed over, counted as a copy, or accepted without a key.
//!
//! A gateway is recognized by the certificate of its connection, if gateways have certificates, and otherwise by its IP
//! address. Then no client may reach a gateway from the address of another gateway, for example through a forwarding
//! sidecar in a gateway pod.

use std::net::IpAddr;

use http::request::Parts;
use weir_cluster::Address;

use crate::clock::seconds_since_1970;
use crate::context::Context;
use crate::peers::{PeerChain, PeerRole, PeerTrust};
use crate::wire::headers::GatewayHeaders;

/// Names of the headers, in each spelling. Many web frameworks read `-` and `_` in a name as the same, so that a replica
/// could take a client's `weir_client` for the gateway's header.
const SPELLINGS: [&str; 6] = ["weir-hop", "weir_hop", "weir-mirror", "weir_mirror", "weir-client", "weir_client"];

/// Removes the headers that only gateways may set, unless the request comes from a gateway. Returns what was found.
pub(crate) fn remove_untrusted(parts: &mut Parts, from: Option<IpAddr>, context: &Context) -> GatewayHeaders {
    if !parts.headers.keys().any(|name| SPELLINGS.contains(&name.as_str())) {
        return GatewayHeaders::Absent;
    }
    let role = role(parts, from, context);
    if role == PeerRole::Gateway {
        return GatewayHeaders::Trusted;
    }
    for name in SPELLINGS {
        parts.headers.remove(name);
    }
    if role == PeerRole::FormerGateway { GatewayHeaders::Outdated } else { GatewayHeaders::Absent }
}

fn role(parts: &Parts, from: Option<IpAddr>, context: &Context) -> PeerRole {
    let chain = parts.extensions.get::<PeerChain>();
    let by_address = || if is_at_gateway(from, context) { PeerRole::Gateway } else { PeerRole::Other };
    match (&context.options.peers, chain) {
        (None, _) => by_address(),
        (Some(peers), Some(chain)) => peers.role(chain, seconds_since_1970()),
        (Some(peers), None) => match peers.trust() {
            PeerTrust::Certificate => PeerRole::Other,
            PeerTrust::CertificateOrAddress => by_address(),
        },
    }
}

/// Returns true for the address of another gateway.
fn is_at_gateway(from: Option<IpAddr>, context: &Context) -> bool {
    let (state, me) = (context.state.load(), &context.options.name);
    let mut others = state.snapshot.gateways.iter().filter(|other| other.name != *me);
    others.any(|other| is_at(&other.serving, from))
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
    use crate::wire::headers;

    #[test]
    fn every_header_of_gateways_has_both_spellings() {
        for name in [headers::HOP, headers::MIRROR, headers::CLIENT] {
            assert!(SPELLINGS.contains(&name.as_str()), "{name}");
            assert!(SPELLINGS.contains(&&*name.as_str().replace('-', "_")), "{name}");
        }
    }

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

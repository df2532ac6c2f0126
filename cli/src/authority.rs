//! The host and port by which clients on this machine reach an address that a `weir up` listens on.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// `HOST:PORT` for URLs. The host is `localhost` where that leads to the address: certificates name it, and it is the same
/// with and without IPv6. Any other address has to be named itself.
pub(crate) fn authority(address: SocketAddr) -> String {
    if is_localhost(address.ip()) { format!("localhost:{}", address.port()) } else { address.to_string() }
}

/// True for the two addresses of the name `localhost`, and for those that stand for every address. Other loopback
/// addresses, as 127.0.0.2, have no name.
fn is_localhost(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => address == Ipv4Addr::LOCALHOST || address.is_unspecified(),
        IpAddr::V6(address) => address == Ipv6Addr::LOCALHOST || address.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_localhost_does_not_lead_to_is_named_itself() {
        for (address, expected) in [
            ("127.0.0.1:8080", "localhost:8080"),
            ("0.0.0.0:80", "localhost:80"),
            ("[::1]:8080", "localhost:8080"),
            ("[::]:8080", "localhost:8080"),
            ("[::ffff:127.0.0.1]:8080", "localhost:8080"),
            ("127.0.0.2:8080", "127.0.0.2:8080"),
            ("192.168.1.5:8080", "192.168.1.5:8080"),
            ("[2001:db8::1]:8080", "[2001:db8::1]:8080"),
        ] {
            assert_eq!(authority(address.parse().unwrap()), expected);
        }
    }
}

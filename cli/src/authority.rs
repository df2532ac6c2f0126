//! Host and port by which clients on this machine reach a `weir up`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Returns `HOST:PORT` for URLs. The host is `localhost` if that resolves to the address, because certificates name it
/// and it works with IPv4 and IPv6. Otherwise it is the address itself.
pub(crate) fn authority(address: SocketAddr) -> String {
    if is_localhost(address.ip()) { format!("localhost:{}", address.port()) } else { address.to_string() }
}

/// Returns true for 127.0.0.1 and ::1, to which `localhost` resolves, and for the unspecified addresses, which include
/// them. Other loopback addresses, such as 127.0.0.2, have no name.
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
    fn an_address_other_than_localhost_is_used_as_it_is() {
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

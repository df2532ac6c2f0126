//! Decides which redirects are followed. The configured URI is trusted; a redirect is not, because it could lead to
//! this machine or to a cloud's metadata service.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Maximum number of consecutive redirects: half of what browsers follow, and more than any object store needs.
pub(super) const MAX_REDIRECTS: usize = 10;

/// Returns the scheme and host of a redirect's target, for messages.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}", url.scheme())
}

/// Returns why a redirect is refused, judging by its URL; `None` if it may be followed.
pub(super) fn refusal(from: &Url, to: &Url) -> Option<&'static str> {
    match (from.scheme(), to.scheme()) {
        (_, "https") | ("http", "http") => None,
        (_, "http") => Some("which is not encrypted"),
        _ => Some("which is neither http nor https"),
    }
}

/// Addresses of cloud metadata services (of Alibaba, Azure, and Google over IPv6) that are not link-local.
const METADATA: [IpAddr; 3] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// First 32 bits of the IPv6 addresses of Amazon's services of a machine: metadata (`fd00:ec2::254`), and EKS Pod Identity
/// (`fd00:ec2::23`).
const AMAZON: [u16; 2] = [0xfd00, 0xec2];

/// Returns why a redirect to a host with this address is refused; `None` if it may be followed. Addresses of this
/// machine and of clouds' metadata services are refused.
pub(super) fn address_refusal(address: IpAddr) -> Option<&'static str> {
    let address = behind_nat64(address.to_canonical());
    let is_inner = address.is_loopback() || address.is_unspecified() || is_service_of_machine(address);
    is_inner.then_some("an address of this machine or of its network's services")
}

/// Returns true for the addresses of clouds' services that identify a machine or pod, and give it credentials.
pub(crate) fn is_service_of_machine(address: IpAddr) -> bool {
    let is_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local() || address.segments().starts_with(&AMAZON),
    };
    is_local || METADATA.contains(&address)
}

/// Returns the IPv4 address in an IPv6 address with the well-known NAT64 prefix 64:ff9b::/96 (RFC 6052). Other
/// addresses are returned unchanged.
fn behind_nat64(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) if v6.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0] => {
            let [.., a, b, c, d] = v6.octets();
            Ipv4Addr::new(a, b, c, d).into()
        }
        IpAddr::V4(_) | IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_from_https_to_http_and_to_internal_addresses_are_refused() {
        let refused = |from: &str, to: &str| {
            let parse = |text: &str| Url::parse(text).unwrap();
            refusal(&parse(from), &parse(to))
        };
        assert_eq!(refused("https://a/x", "https://b/y"), None);
        assert_eq!(refused("http://a/x", "https://b/y"), None);
        assert_eq!(refused("http://a/x", "http://b/y"), None);
        assert!(refused("https://a/x", "http://a/x").is_some());
        assert!(refused("https://a/x", "file:///etc/passwd").is_some());
        for address in [
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "0.0.0.0",
            "::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "64:ff9b::169.254.169.254",
            "fd00:ec2::254",
            "fd00:ec2::23",
            "fd20:ce::254",
            "100.100.100.200",
            "168.63.129.16",
        ] {
            assert!(address_refusal(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in ["10.0.0.1", "1.1.1.1", "2001:db8::1", "64:ff9b::1.1.1.1", "fd00:ec3::254"] {
            assert!(address_refusal(address.parse().unwrap()).is_none(), "{address}");
        }
    }
}

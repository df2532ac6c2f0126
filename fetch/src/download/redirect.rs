//! Which redirects are followed: what a server says is not what its owner asked for.

use std::net::IpAddr;

use reqwest::Url;

/// Most redirects in a row: as many as browsers' half, and more than any object store needs.
pub(super) const MAX_REDIRECTS: usize = 10;

/// The host and scheme of a redirect's target, for messages.
pub(super) fn shown(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{}://{host}", url.scheme())
}

/// Why a redirect is not followed, as far as its URL tells.
pub(super) fn refusal(from: &Url, to: &Url) -> Option<&'static str> {
    match (from.scheme(), to.scheme()) {
        (_, "https") | ("http", "http") => None,
        (_, "http") => Some("which is not encrypted"),
        _ => Some("which is neither http nor https"),
    }
}

/// Why a redirect to a host with this address is not followed: such addresses are of this machine, or of the
/// metadata services of clouds.
pub(super) fn address_refusal(address: IpAddr) -> Option<&'static str> {
    let is_inner = match address.to_canonical() {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_link_local() || address.is_unspecified()
        }
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unicast_link_local() || address.is_unspecified()
        }
    };
    is_inner.then_some("an address of this machine or of its network's services")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_redirect_leads_out_of_encryption_or_into_the_machine() {
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
        ] {
            assert!(
                address_refusal(address.parse().unwrap()).is_some(),
                "{address}"
            );
        }
        for address in ["10.0.0.1", "1.1.1.1", "2001:db8::1"] {
            assert!(
                address_refusal(address.parse().unwrap()).is_none(),
                "{address}"
            );
        }
    }
}

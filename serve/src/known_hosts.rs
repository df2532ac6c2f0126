//! Check of the hosts that a port answers to.
//!
//! Any web page can make its name resolve to this machine (DNS rebinding), and then send requests to a port that only
//! this machine can reach. It can also submit a form to that port. The browser reveals this by `Host`, which is the
//! page's host, and by `Origin`.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use http::header::{ACCEPT_LANGUAGE, HOST, HeaderName, ORIGIN, REFERER};
use http::request::Parts;
use http::uri::Authority;

use crate::header_names;

/// Hosts that a port answers to.
#[derive(Clone, Debug, Default)]
pub enum KnownHosts {
    /// Every host: clients on other machines reach the port by names that the server does not know.
    #[default]
    Any,
    /// `localhost`, IP addresses, and these names. An IP address in an `Origin` header must be a loopback address.
    Local(Arc<[String]>),
}

/// Error of a request whose host or origin is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{header} {value:?} is not a host of this machine: use localhost, or allow the host with the flag --allowed-host"
)]
pub struct ForeignHost {
    /// Name of the header with the refused host.
    pub header: &'static str,
    /// Value of the header with the refused host.
    pub value: String,
}

impl KnownHosts {
    /// Returns the hosts of a port that listens on `address`: on a loopback address, the machine's own hosts and
    /// `names`; on any other address, every host.
    #[must_use]
    pub fn of(address: IpAddr, names: &[String]) -> Self {
        if address.to_canonical().is_loopback() {
            Self::Local(names.iter().map(|name| name.to_ascii_lowercase()).collect())
        } else {
            Self::Any
        }
    }

    /// Checks the host that a request is for and the site that it comes from. `is_served` returns true for further
    /// allowed hosts.
    ///
    /// # Errors
    /// [`ForeignHost`] if the host or the origin is not allowed.
    pub fn check(&self, parts: &Parts, is_served: impl Fn(&str) -> bool) -> Result<(), ForeignHost> {
        let Self::Local(names) = self else {
            return Ok(());
        };
        let is_ours = |host: &str| is_local(host) || is_named(names, host) || is_served(host);
        check_origin(&parts.headers, is_ours)?;
        let authority = parts.uri.authority().map(Authority::as_str);
        let Some(authority) = authority.or_else(|| text(&parts.headers, &HOST)) else {
            return Ok(());
        };
        let host = without_port(authority);
        let may_be_rebound = || is_public(host) || is_of_browser(&parts.headers);
        if address(host).is_some() || is_ours(host) || !may_be_rebound() {
            Ok(())
        } else {
            Err(foreign("host", authority))
        }
    }

    /// Checks the site that a request comes from, by its `Origin` header.
    ///
    /// # Errors
    /// [`ForeignHost`] if the origin is not allowed.
    pub fn check_origin(&self, headers: &HeaderMap) -> Result<(), ForeignHost> {
        match self {
            Self::Any => Ok(()),
            Self::Local(names) => check_origin(headers, |host| is_local(host) || is_named(names, host)),
        }
    }
}

fn check_origin(headers: &HeaderMap, is_ours: impl Fn(&str) -> bool) -> Result<(), ForeignHost> {
    match text(headers, &ORIGIN) {
        Some(origin) if !host_of_origin(origin).is_some_and(is_ours) => Err(foreign("origin", origin)),
        Some(_) | None => Ok(()),
    }
}

/// Returns a header's first value. A value that is not text becomes `?`, which matches no allowed host.
fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let value = header_names::first(headers, name)?;
    Some(value.to_str().unwrap_or("?"))
}

fn is_named(names: &[String], host: &str) -> bool {
    names.iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn foreign(header: &'static str, value: &str) -> ForeignHost {
    ForeignHost { header, value: value.to_owned() }
}

/// Returns the host of `http://host:port`, or `None` for other values, such as `null`.
fn host_of_origin(origin: &str) -> Option<&str> {
    let (_, authority) = origin.split_once("://")?;
    Some(without_port(authority))
}

/// Returns an authority's host without port, brackets and trailing dot.
fn without_port(authority: &str) -> &str {
    if let Some(rest) = authority.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    let digits = authority.bytes().rev().take_while(u8::is_ascii_digit);
    let host = &authority[..authority.len() - digits.count()];
    let host = host.strip_suffix(':').unwrap_or(authority);
    host.strip_suffix('.').unwrap_or(host)
}

/// Top-level domains in which anyone can register a name, besides the two-letter country codes; `example` is reserved
/// for documentation.
const PUBLIC: [&str; 12] =
    ["com", "net", "org", "info", "io", "dev", "app", "xyz", "online", "site", "cloud", "example"];

/// Returns true if anyone on the Internet could have registered this name.
fn is_public(host: &str) -> bool {
    let Some((_, last)) = host.rsplit_once('.') else {
        return false;
    };
    let is_country = last.len() == 2 && last.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_country || PUBLIC.iter().any(|label| label.eq_ignore_ascii_case(last))
}

/// Returns true for a request from a browser: every browser request has one of these headers, whatever the page does.
/// Other programs are not subject to DNS rebinding, and may use any name outside the public domains.
fn is_of_browser(headers: &HeaderMap) -> bool {
    headers.contains_key(ACCEPT_LANGUAGE)
        || headers.contains_key(REFERER)
        || headers.contains_key(ORIGIN)
        || headers.contains_key("sec-fetch-site")
}

/// Parses a host that is an IP address. Most hosts are names, which the first character rules out without parsing.
fn address(host: &str) -> Option<IpAddr> {
    let (first, is_v6) = (host.as_bytes().first(), host.as_bytes().contains(&b':'));
    let may_be = is_v6 || first.is_some_and(u8::is_ascii_digit);
    may_be.then(|| host.parse().ok())?
}

/// Returns true for `localhost`, for names below it, which browsers resolve themselves, and for loopback addresses.
fn is_local(host: &str) -> bool {
    if let Some(address) = address(host) {
        return address.to_canonical().is_loopback();
    }
    let last = host.rsplit('.').next().unwrap_or(host);
    last.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn check(hosts: &KnownHosts, host: &str, origin: Option<&str>) -> Result<(), ForeignHost> {
        let mut request = Request::get("/").header("host", host);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        hosts.check(&parts, |host| host == "a-b.example.com")
    }

    #[test]
    fn pages_of_other_sites_are_foreign() {
        let hosts = KnownHosts::of("127.0.0.1".parse().unwrap(), &["Box.lan".to_owned()]);
        for host in [
            "localhost",
            "localhost:8080",
            "LOCALHOST.",
            "app.localhost:1",
            "127.0.0.1:8080",
            "[::1]:8080",
            "10.1.2.3",
            "a-b.example.com",
            "box.lan:80",
        ] {
            assert_eq!(check(&hosts, host, None), Ok(()), "{host}");
        }
        for host in ["evil.com", "evil.com:8080", "localhost.evil.com", "127.0.0.1.evil.com"] {
            let error = check(&hosts, host, None).unwrap_err();
            assert_eq!(error.header, "host", "{host}");
        }
        for origin in ["http://evil.com", "null", "http://10.1.2.3", "file://", "https://localhost.evil.com"] {
            let error = check(&hosts, "localhost", Some(origin)).unwrap_err();
            assert_eq!(error.header, "origin", "{origin}");
        }
        for origin in ["http://localhost:3000", "http://127.0.0.1", "https://a-b.example.com"] {
            assert_eq!(check(&hosts, "localhost", Some(origin)), Ok(()), "{origin}");
        }
    }

    #[test]
    fn programs_may_use_names_outside_public_domains_but_browsers_may_not() {
        let hosts = KnownHosts::of("127.0.0.1".parse().unwrap(), &[]);
        assert_eq!(check(&hosts, "models.tests:8080", None), Ok(()));
        assert_eq!(check(&hosts, "gpu-box", None), Ok(()));
        assert!(check(&hosts, "gpu.co.uk", None).is_err());
        let request = Request::get("/").header("host", "models.tests");
        let request = request.header("accept-language", "en").body(()).unwrap();
        let parts = request.into_parts().0;
        assert!(hosts.check(&parts, |_| false).is_err());
    }

    proptest! {
        #[test]
        fn addresses_are_distinguished_from_names(host in "[0-9a-f:.]{0,16}|[a-z.]{0,9}") {
            prop_assert_eq!(address(&host), host.parse().ok());
        }
    }

    #[test]
    fn a_port_that_other_machines_reach_answers_to_every_host() {
        let hosts = KnownHosts::of("0.0.0.0".parse().unwrap(), &[]);
        assert_eq!(check(&hosts, "evil.com", Some("null")), Ok(()));
    }
}

//! Host names in requests.

use std::borrow::Borrow;
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;

use crate::ClusterError;

/// Maximum length of a DNS host name, without the trailing dot.
const MAX_HOST: usize = 253;

/// A host name in lower case, without port and trailing dot, so that equal hosts are equal strings.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Host(Arc<str>);

impl Host {
    /// Parses the value of a `Host` header or an `:authority`.
    ///
    /// # Errors
    /// [`ClusterError::Name`] when the host is empty, too long, or not a host name.
    pub fn parse(authority: &str) -> Result<Self, ClusterError> {
        let fault = |because: &str| Err(ClusterError::name("host", authority, because));
        let host = without_port(authority);
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.is_empty() {
            return fault("must not be empty");
        }
        if host.len() > MAX_HOST {
            return fault("must have at most 253 characters");
        }
        if !is_ipv6(host) && !host.split('.').all(is_label) {
            return fault("not a host name");
        }
        Ok(Self(host.to_ascii_lowercase().into()))
    }

    /// The normalised host, in lower case.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Allows lookups in a table of hosts by a plain string.
impl Borrow<str> for Host {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// Removes the port. An IPv6 address keeps its brackets; the colons inside them do not start a port.
fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !open_bracket(host) => host,
        Some(_) | None => authority,
    }
}

fn open_bracket(host: &str) -> bool {
    host.starts_with('[') && !host.ends_with(']')
}

fn is_ipv6(host: &str) -> bool {
    let inner = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    inner.is_some_and(|address| address.parse::<Ipv6Addr>().is_ok())
}

/// Returns true for a host label. Underscores are not valid in DNS hosts but are accepted, because machine names
/// contain them.
fn is_label(label: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
    !label.is_empty() && label.bytes().all(is_inner)
}

//! Scheme of the URLs in a status for clients outside the cluster.

use std::fmt;
use std::str::FromStr;

/// Scheme by which clients outside the cluster reach the gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlScheme {
    /// Plain HTTP without encryption.
    #[default]
    Http,
    /// HTTP over TLS, which the gateways or a proxy before them terminate.
    Https,
}

impl fmt::Display for UrlScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

impl FromStr for UrlScheme {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "http" => Ok(Self::Http),
            "https" => Ok(Self::Https),
            _ => Err("write http or https"),
        }
    }
}

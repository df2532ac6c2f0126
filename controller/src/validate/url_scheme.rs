//! The scheme of the URLs that a status tells callers outside.

use std::fmt;
use std::str::FromStr;

/// The scheme by which external callers reach the gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UrlScheme {
    /// Requests are not encrypted.
    #[default]
    Http,
    /// Over TLS, which the gateways or a proxy before them end.
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

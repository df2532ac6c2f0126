//! The URLs from which the keys of an issuer come. They are those of the settings, and encrypted unless they lead to
//! this machine.

use std::net::IpAddr;
use std::path::PathBuf;

use reqwest::Url;

/// Server of an issuer's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) url: SourceUrl,
    /// File of the only certificate authorities that are trusted; `None` for the system's.
    pub(crate) ca_file: Option<PathBuf>,
    /// File of the bearer token for requests; `None` for requests without one.
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) proxies: Proxies,
}

/// URL at which the fetch of an issuer's keys starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceUrl {
    /// The URL is that of the key set.
    KeySet(Url),
    /// The issuer's OpenID configuration, which names the key set.
    Discovery(Url),
    /// A Kubernetes API server: its OpenID configuration names the issuer. The URL of the key set in it is often one
    /// that only nodes reach, so the key set is fetched from the server itself.
    ApiServer { discovery: Url, key_set: Url },
}

/// Use of proxies for requests to an issuer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proxies {
    /// The environment's proxies are used, as for downloads.
    Environment,
    /// No proxy is used, because the server is in the same cluster.
    Never,
}

/// Reads a URL of the settings.
///
/// # Errors
/// A clause that describes the error in the URL.
pub(crate) fn checked_url(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is no URL: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("contains a password; use tokenFile".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("contains '?' or '#'".to_owned());
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err("is not encrypted: use https".to_owned()),
        _ => Err("is neither https nor http".to_owned()),
    }
}

/// Returns the URL of the key set that an issuer's OpenID configuration names. Only a URL of the same server is
/// accepted, so that an issuer cannot make Weir call other servers.
///
/// # Errors
/// A clause that describes the error in the URL.
pub(crate) fn named_key_set(discovery: &Url, named: &str) -> Result<Url, String> {
    let url = checked_url(named).map_err(|reason| format!("its jwks_uri {reason}"))?;
    if url.origin() != discovery.origin() {
        return Err("its jwks_uri is of another server; set jwksUri to it if you trust that server".to_owned());
    }
    Ok(url)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_encrypted_and_carry_no_secrets() {
        for accepted in ["https://a/b", "http://127.0.0.1:1/x", "http://[::1]/", "http://localhost:8080/realms/x"] {
            assert!(checked_url(accepted).is_ok(), "{accepted}");
        }
        for refused in
            ["http://a/b", "http://localhost.evil/", "file:///x", "https://a:b@c/", "https://a/?b", "https://a/#b", "x"]
        {
            assert!(checked_url(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_named_key_set_is_of_the_same_server() {
        let discovery = Url::parse("https://a/.well-known/openid-configuration").unwrap();
        assert_eq!(named_key_set(&discovery, "https://a/keys").unwrap().as_str(), "https://a/keys");
        for refused in ["https://b/keys", "https://a:444/keys", "http://a/keys", "https://169.254.169.254/", "/keys"] {
            assert!(named_key_set(&discovery, refused).is_err(), "{refused}");
        }
    }
}

//! The domain of the services' hosts.

use weir_cluster::Host;

/// Parses a domain and normalizes it to lower case without a trailing dot, the form in which hosts are compared.
///
/// # Errors
/// A clause that says how to write a domain.
pub(super) fn domain(text: &str) -> Result<String, String> {
    let host = Host::parse(text).ok().filter(|_| !text.contains(':'));
    let host = host.ok_or("write a domain without scheme and port, such as example.com")?;
    Ok(host.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_domains_are_read() {
        for (text, expected) in
            [("example.com", "example.com"), ("Models.Example.com.", "models.example.com"), ("localhost", "localhost")]
        {
            assert_eq!(domain(text).as_deref(), Ok(expected));
        }
        for wrong in ["", ".", "two words", "a..b", "*.a", "a:80", "http://a", "[::1]"] {
            assert!(domain(wrong).is_err(), "{wrong}");
        }
    }
}

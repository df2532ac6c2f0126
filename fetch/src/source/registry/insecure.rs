//! The scheme of a registry: HTTPS, or plain HTTP where the user allows it.

use std::net::IpAddr;

use reqwest::Url;

use crate::access::settings::Settings;

/// Variable with the registries that speak plain HTTP: `HOST` or `HOST:PORT`, separated by commas.
const VARIABLE: &str = "WEIR_OCI_INSECURE";

/// Returns the URL of the registry at `HOST` or `HOST:PORT`: plain HTTP on this machine, as Docker and containerd have it,
/// and for the hosts in `WEIR_OCI_INSECURE`, otherwise HTTPS.
///
/// # Errors
/// A clause if the host is not one.
pub(super) fn base(host: &str, settings: &dyn Settings) -> Result<Url, String> {
    let parse = |scheme: &str| Url::parse(&format!("{scheme}://{host}/")).map_err(|error| error.to_string());
    let url = parse("https")?;
    let listed = settings.variable(VARIABLE).unwrap_or_default();
    let is_listed = listed.split(',').any(|entry| entry.trim() == host);
    if is_listed || is_this_machine(url.host_str().unwrap_or_default()) { parse("http") } else { Ok(url) }
}

fn is_this_machine(host: &str) -> bool {
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::settings::Fixed;

    #[test]
    fn plain_http_is_for_this_machine_and_for_named_hosts() {
        let variables = vec![("WEIR_OCI_INSECURE", "registry:5000, other".to_owned())];
        let settings = Fixed { variables, ..Fixed::default() };
        for (host, expected) in [
            ("ghcr.io", "https://ghcr.io/"),
            ("10.0.0.1:5000", "https://10.0.0.1:5000/"),
            ("localhost.example.com", "https://localhost.example.com/"),
            ("localhost:5000", "http://localhost:5000/"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000/"),
            ("[::1]:5000", "http://[::1]:5000/"),
            ("registry:5000", "http://registry:5000/"),
            ("other", "http://other/"),
            ("registry", "https://registry/"),
            ("other:443", "https://other/"),
        ] {
            assert_eq!(base(host, &settings).unwrap().as_str(), expected, "{host}");
        }
    }
}

//! Refuses ambiguous requests, and those for tunnels (RFC 9110, 9.3.6).

use http::Method;
use http::request::Parts;
use weir_ops::request_head::{self, Ambiguous};

use crate::error::GatewayError;

/// Checks that a request has one host and one framing.
///
/// # Errors
/// [`GatewayError::Header`] or [`GatewayError::MethodNotAllowed`].
pub(super) fn check(parts: &Parts) -> Result<(), GatewayError> {
    if parts.method == Method::CONNECT {
        // The gateway opens no tunnels.
        let allowed = "GET, HEAD, POST";
        return Err(GatewayError::MethodNotAllowed { allowed });
    }
    request_head::check(&parts.headers).map_err(refused)
}

fn refused(ambiguous: Ambiguous) -> GatewayError {
    GatewayError::Header {
        name: ambiguous.name,
        value: ambiguous.value,
        expected: ambiguous.expected,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(method: &str, hosts: &[&str]) -> Result<(), GatewayError> {
        let mut request = Request::builder().method(method);
        for host in hosts {
            request = request.header("host", *host);
        }
        check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn tunnels_and_ambiguous_requests_are_refused() {
        assert_eq!(checked("POST", &["a.b"]), Ok(()));
        let error = checked("GET", &["a.b", "c.d"]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "header host: \"a.b, c.d\" is not one host"
        );
        let error = checked("CONNECT", &["a.b"]).unwrap_err();
        assert!(matches!(error, GatewayError::MethodNotAllowed { .. }));
    }
}

//! Refuses ambiguous requests, which the servers on their way may interpret differently (RFC 9112, 3.2 and 6.1; RFC
//! 9110, 9.3.6).

use http::header::{HOST, HeaderName, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, Method};

use crate::error::GatewayError;

/// Checks that a request has one host and one framing.
///
/// # Errors
/// [`GatewayError::Header`] or [`GatewayError::MethodNotAllowed`].
pub(super) fn check(parts: &Parts) -> Result<(), GatewayError> {
    if parts.method == Method::CONNECT {
        // The gateway opens no tunnels.
        return Err(GatewayError::MethodNotAllowed);
    }
    if parts.headers.get_all(HOST).iter().nth(1).is_some() {
        return Err(ambiguous(&parts.headers, "host", &HOST, "one host"));
    }
    // hyper decodes `chunked` alone, and the header is not forwarded: another coding could not be decoded.
    if !is_chunked_alone(&parts.headers) {
        let name = "transfer-encoding";
        return Err(ambiguous(
            &parts.headers,
            name,
            &TRANSFER_ENCODING,
            "chunked alone",
        ));
    }
    Ok(())
}

fn is_chunked_alone(headers: &HeaderMap) -> bool {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let is_chunked =
        |coding: &http::HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"chunked");
    codings.next().is_none_or(is_chunked) && codings.next().is_none()
}

fn ambiguous(
    headers: &HeaderMap,
    name: &'static str,
    header: &HeaderName,
    expected: &'static str,
) -> GatewayError {
    let values = headers.get_all(header).iter();
    let values: Vec<_> = values
        .map(|value| String::from_utf8_lossy(value.as_bytes()))
        .collect();
    GatewayError::Header {
        name,
        value: values.join(", "),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn checked(method: &str, headers: &[(&str, &str)]) -> Result<(), GatewayError> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        check(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let host = ("host", "a.b");
        let coded = |coding| [host, ("transfer-encoding", coding)];
        assert_eq!(checked("POST", &[host]), Ok(()));
        assert_eq!(checked("POST", &coded("Chunked")), Ok(()));
        assert!(checked("POST", &coded("gzip, chunked")).is_err());
        assert!(checked("POST", &coded("chunked, chunked")).is_err());
        let twice = [
            ("transfer-encoding", "chunked"),
            ("transfer-encoding", "chunked"),
        ];
        assert!(checked("POST", &twice).is_err());
        let error = checked("GET", &[host, ("host", "c.d")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "header host: \"a.b, c.d\" is not one host"
        );
        let error = checked("CONNECT", &[host]);
        assert_eq!(error, Err(GatewayError::MethodNotAllowed));
    }
}

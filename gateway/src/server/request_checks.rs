//! Refuses ambiguous requests, tunnels (RFC 9110, 9.3.6), invalid handshakes of WebSockets, and gRPC over HTTP/1.

use http::header::{CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use http::request::Parts;
use http::{Method, Version};
use weir_serve::header_names;
use weir_serve::request_head::{self, Ambiguous};

use crate::error::GatewayError;
use crate::upstream::Upgrade;
use crate::wire::protocol::Protocol;

/// Checks that every server on the request's way parses it the same: one host, one framing, no tunnel,
/// and no body before a WebSocket.
///
/// # Errors
/// [`GatewayError::Header`] for no host, several hosts or an ambiguous framing; [`GatewayError::MethodNotAllowed`] for
/// `CONNECT`; [`GatewayError::Handshake`] for a WebSocket with a body or by another method than GET;
/// [`GatewayError::GrpcOverHttp1`] for gRPC over HTTP/1.
pub(super) fn check(protocol: Protocol, parts: &Parts) -> Result<(), GatewayError> {
    if parts.method == Method::CONNECT {
        // The gateway opens no tunnels.
        let allowed = "GET, HEAD, POST";
        return Err(GatewayError::MethodNotAllowed { allowed });
    }
    let upgrade = Upgrade::of(parts);
    if !upgrade.allows(&parts.method) || (upgrade != Upgrade::None && has_body(&parts.headers)) {
        return Err(GatewayError::Handshake);
    }
    // A gRPC call's status is in the trailers, which few proxies forward over HTTP/1, so the client would see no
    // status.
    if protocol == Protocol::Grpc && parts.version < Version::HTTP_2 {
        return Err(GatewayError::GrpcOverHttp1);
    }
    // Without a `host` header each server on the way would choose its own host (RFC 9112, 3.2).
    if parts.version == Version::HTTP_11 && !names_host(parts) {
        return Err(GatewayError::Header { name: "host", value: String::new(), expected: "one host" });
    }
    request_head::check(&parts.headers).map_err(refused)
}

fn names_host(parts: &Parts) -> bool {
    parts.uri.authority().is_some() || header_names::has(&parts.headers, &HOST)
}

/// Returns true if the head announces a body. A server that does not expect one would read it as the WebSocket's bytes.
fn has_body(headers: &HeaderMap) -> bool {
    let length = headers.get_all(CONTENT_LENGTH).iter();
    headers.contains_key(TRANSFER_ENCODING) || length.into_iter().any(|length| length != "0")
}

fn refused(ambiguous: Ambiguous) -> GatewayError {
    GatewayError::Header { name: ambiguous.name, value: ambiguous.value, expected: ambiguous.expected }
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
        checked_as(request)
    }

    fn checked_as(request: http::request::Builder) -> Result<(), GatewayError> {
        let parts = request.body(()).unwrap().into_parts().0;
        check(Protocol::of(&parts.headers), &parts)
    }

    #[test]
    fn tunnels_and_ambiguous_requests_are_refused() {
        assert_eq!(checked("POST", &["a.b"]), Ok(()));
        let error = checked("GET", &["a.b", "c.d"]).unwrap_err();
        assert_eq!(error.to_string(), "header host: \"a.b, c.d\" is not one host");
        let error = checked("GET", &[]).unwrap_err();
        assert_eq!(error.to_string(), "header host: \"\" is not one host");
        let error = checked("CONNECT", &["a.b"]).unwrap_err();
        assert!(matches!(error, GatewayError::MethodNotAllowed { .. }));
    }

    #[test]
    fn a_websocket_is_a_get_without_a_body() {
        let asked = |method: &str, header: (&str, &str)| {
            let request = Request::builder().method(method).uri("/ws").header("host", "a.b");
            let request = request.header("connection", "upgrade").header("upgrade", "websocket");
            checked_as(request.header(header.0, header.1))
        };
        let none = ("content-length", "0");
        assert_eq!(asked("GET", none), Ok(()));
        assert_eq!(asked("POST", none), Err(GatewayError::Handshake));
        assert_eq!(asked("GET", ("content-length", "5")), Err(GatewayError::Handshake));
        assert_eq!(asked("GET", ("transfer-encoding", "chunked")), Err(GatewayError::Handshake));
    }

    #[test]
    fn grpc_is_refused_over_http1_and_grpc_web_is_not() {
        let asked = |version, kind: &str| {
            let request = Request::post("/a.B/C").version(version);
            let request = request.header("host", "a.b");
            checked_as(request.header("content-type", kind))
        };
        for version in [Version::HTTP_10, Version::HTTP_11] {
            let refused = asked(version, "application/grpc+proto");
            assert_eq!(refused, Err(GatewayError::GrpcOverHttp1));
            assert_eq!(asked(version, "application/grpc-web+proto"), Ok(()));
        }
        assert_eq!(asked(Version::HTTP_2, "application/grpc"), Ok(()));
    }
}

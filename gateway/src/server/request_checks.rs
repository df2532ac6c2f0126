//! Refuses ambiguous requests, tunnels (RFC 9110, 9.3.6), WebSockets, and gRPC over HTTP/1.

use http::header::{HOST, HeaderMap, UPGRADE};
use http::request::Parts;
use http::{Method, Version};
use weir_serve::header_names;
use weir_serve::request_head::{self, Ambiguous};

use crate::error::GatewayError;
use crate::protocol::Protocol;

/// Checks that every server on the request's way parses it the same: one host, one framing, no tunnel and no upgrade.
///
/// # Errors
/// [`GatewayError::Header`] for no host, several hosts or an ambiguous framing; [`GatewayError::MethodNotAllowed`] for
/// `CONNECT`; [`GatewayError::WebSocket`] for an upgrade to it; [`GatewayError::GrpcOverHttp1`] for gRPC over HTTP/1.
pub(super) fn check(protocol: Protocol, parts: &Parts) -> Result<(), GatewayError> {
    if parts.method == Method::CONNECT {
        // The gateway opens no tunnels.
        let allowed = "GET, HEAD, POST";
        return Err(GatewayError::MethodNotAllowed { allowed });
    }
    // `upgrade` is a header of this connection and is not forwarded, so the replica would answer a plain GET.
    if parts.version == Version::HTTP_11 && asks_for_websocket(&parts.headers) {
        return Err(GatewayError::WebSocket);
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

fn asks_for_websocket(headers: &HeaderMap) -> bool {
    if !header_names::has(headers, &UPGRADE) {
        return false;
    }
    let upgrades = headers.get_all(UPGRADE).iter();
    let protocols = upgrades.flat_map(|upgrade| upgrade.as_bytes().split(|b| *b == b','));
    let mut names = protocols.map(<[u8]>::trim_ascii);
    names.any(|name| name.eq_ignore_ascii_case(b"websocket"))
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
    fn a_websocket_is_refused_and_other_upgrades_are_ignored() {
        let asked = |upgrade: &str| {
            let request = Request::get("/ws").header("host", "a.b");
            checked_as(request.header("upgrade", upgrade))
        };
        assert_eq!(asked("WebSocket"), Err(GatewayError::WebSocket));
        assert_eq!(asked("h2c, websocket"), Err(GatewayError::WebSocket));
        assert_eq!(asked("h2c"), Ok(()));
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

//! Upgrades of HTTP/1.1 connections to WebSockets (RFC 9110, 7.8; RFC 6455).

use bytes::Bytes;
use http::header::{CONNECTION, HeaderMap, HeaderName, HeaderValue, UPGRADE};
use http::request::Parts;
use http::{Method, Version};
use weir_serve::header_names;

use super::dial::Socket;

/// Value of the header `Upgrade` for a WebSocket.
pub(crate) const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

/// Protocol to which a request asks to switch its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Upgrade {
    /// The connection stays with HTTP. Upgrades to other protocols are ignored, as a server may (RFC 9110, 7.8).
    #[default]
    None,
    WebSocket,
}

/// A connection to an upstream after its response with status 101.
pub(crate) struct SwitchedConnection {
    /// Bytes that arrived together with the response's head.
    pub(crate) first: Bytes,
    pub(crate) socket: Socket,
}

impl Upgrade {
    /// Returns the upgrade that a request asks for. Only HTTP/1.1 has upgrades, and the header `Connection` has to name
    /// them: otherwise a proxy in front of the gateway would not expect the connection to leave HTTP.
    pub(crate) fn of(parts: &Parts) -> Self {
        let headers = &parts.headers;
        let is_asked = parts.version == Version::HTTP_11 && names_websocket(headers);
        if is_asked && has_token(headers, &CONNECTION, b"upgrade") { Self::WebSocket } else { Self::None }
    }

    /// Returns true if a request with this method may ask for the upgrade. A WebSocket's handshake is a GET.
    pub(crate) fn allows(self, method: &Method) -> bool {
        match self {
            Self::None => true,
            Self::WebSocket => method == Method::GET,
        }
    }
}

/// Returns true if a header `Upgrade` has the name `websocket`.
pub(super) fn names_websocket(headers: &HeaderMap) -> bool {
    header_names::has(headers, &UPGRADE) && has_token(headers, &UPGRADE, WEBSOCKET.as_bytes())
}

/// Returns true if this header is a list with this token.
fn has_token(headers: &HeaderMap, name: &HeaderName, token: &[u8]) -> bool {
    let values = headers.get_all(name).iter();
    let mut tokens = values.flat_map(|value| value.as_bytes().split(|b| *b == b',')).map(<[u8]>::trim_ascii);
    tokens.any(|found| found.eq_ignore_ascii_case(token))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn only_http11_is_upgraded_and_only_to_websockets() {
        let asked = |version, upgrade: &str| {
            let request = Request::get("/ws").version(version).header("upgrade", upgrade);
            let request = request.header("connection", "keep-alive, Upgrade");
            Upgrade::of(&request.body(()).unwrap().into_parts().0)
        };
        assert_eq!(asked(Version::HTTP_11, "WebSocket"), Upgrade::WebSocket);
        assert_eq!(asked(Version::HTTP_11, "h2c, websocket"), Upgrade::WebSocket);
        assert_eq!(asked(Version::HTTP_11, "h2c"), Upgrade::None);
        for version in [Version::HTTP_10, Version::HTTP_2] {
            assert_eq!(asked(version, "websocket"), Upgrade::None);
        }
        let unnamed = Request::get("/ws").header("upgrade", "websocket").body(()).unwrap();
        assert_eq!(Upgrade::of(&unnamed.into_parts().0), Upgrade::None);
    }
}

//! The rest of a request's body that its response did not need.
//!
//! Most HTTP/1.1 clients read the response only after they have sent everything, and lose it if the connection closes
//! earlier. So the rest of the body is read and dropped, within limits.

use std::time::Duration;

use http::Version;
use http::header::{EXPECT, HeaderMap};
use http::request::Parts;
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use crate::header_names;

/// Maximum number of bytes of a body that are read and dropped before the response is sent.
const MAX_DISCARDED: usize = 1 << 20;

/// Longest time to read and drop a body before the response is sent: several round trips of a slow network.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(2);

/// Longest time for which the rest of an upload is read after its response; nginx's default for `lingering_time`.
const LINGER_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest pause between two frames while lingering; nginx's default for `lingering_timeout`.
const LINGER_PAUSE: Duration = Duration::from_secs(5);

/// Reaction of a client to a response that arrives before the client has sent its whole body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlyResponse {
    /// The client sends the whole body nevertheless, as most HTTP/1.1 clients do.
    SendsOn,
    /// The client sends nothing: it waits for `100 Continue`, which hyper sends once the body is read.
    HoldsBack,
    /// The client stops: the stream is reset over HTTP/2, and clients that sent another `Expect` read the response.
    Stops,
}

/// State of an HTTP/1.1 connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterBody {
    /// The connection may carry another request.
    Reusable,
    /// The connection must close, because the client may still send a body that it has held back.
    Close,
}

impl EarlyResponse {
    /// Returns the reaction of the client that sent this head.
    #[must_use]
    pub fn of(parts: &Parts) -> Self {
        Self::new(parts.version, &parts.headers)
    }

    fn new(version: Version, headers: &HeaderMap) -> Self {
        let expected = header_names::first(headers, &EXPECT);
        let asks = expected.is_some_and(|what| what.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        match expected {
            _ if version >= Version::HTTP_2 => Self::Stops,
            Some(_) if asks && version == Version::HTTP_11 => Self::HoldsBack,
            Some(_) => Self::Stops,
            None => Self::SendsOn,
        }
    }

    /// Reads and drops the rest of a body before its response is sent. A body that is too long or too slow is read
    /// further, for up to 30 seconds, while the client receives the response.
    pub async fn settle(self, unread: Incoming) -> AfterBody {
        if self == Self::HoldsBack && !unread.is_end_stream() {
            return AfterBody::Close;
        }
        let rest = Box::pin(discard(unread)).await;
        if let Some(rest) = rest.filter(|_| self == Self::SendsOn) {
            tokio::spawn(linger(rest));
        }
        AfterBody::Reusable
    }
}

/// Reads and drops a body. Returns the body if it is too large, or arrives too slowly, to be read to its end.
async fn discard(mut body: Incoming) -> Option<Incoming> {
    if body.size_hint().lower() > MAX_DISCARDED as u64 {
        return Some(body);
    }
    let read = async {
        let mut left = MAX_DISCARDED;
        while let Some(Ok(frame)) = body.frame().await {
            let size = frame.data_ref().map_or(0, bytes::Bytes::len);
            match left.checked_sub(size) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        true
    };
    // On a timeout the response is sent anyway.
    let is_read = tokio::time::timeout(DISCARD_TIMEOUT, read).await;
    (is_read != Ok(true)).then_some(body)
}

/// Reads and drops the rest of an upload whose response was sent before its end.
pub async fn linger(mut body: Incoming) {
    let read = async { while let Ok(Some(Ok(_))) = tokio::time::timeout(LINGER_PAUSE, body.frame()).await {} };
    // On a timeout the connection closes: by then the client has had time to read the response.
    let _ = tokio::time::timeout(LINGER_TIMEOUT, read).await;
}

#[cfg(test)]
mod tests {
    use http::header::HeaderValue;

    use super::*;

    #[test]
    fn clients_react_as_their_version_and_expectation_say() {
        let reaction = |version, expected: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(expected) = expected {
                headers.insert(EXPECT, HeaderValue::from_static(expected));
            }
            EarlyResponse::new(version, &headers)
        };
        let (old, one, two) = (Version::HTTP_10, Version::HTTP_11, Version::HTTP_2);
        assert_eq!(reaction(one, None), EarlyResponse::SendsOn);
        assert_eq!(reaction(one, Some("100-Continue")), EarlyResponse::HoldsBack);
        assert_eq!(reaction(one, Some("other")), EarlyResponse::Stops);
        assert_eq!(reaction(old, Some("100-continue")), EarlyResponse::Stops);
        assert_eq!(reaction(two, None), EarlyResponse::Stops);
        assert_eq!(reaction(two, Some("100-continue")), EarlyResponse::Stops);
    }
}

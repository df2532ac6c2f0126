//! Refuses HTTP/1.1 heads that are too long, with an error message. hyper refuses them as well, but with an empty body.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use weir_protocol::rest;

use super::http1::MAX_HEAD;
use super::rewind::Rewind;

/// Bytes of a head above which the gateway reads the head itself until it is whole. Nearly all heads are shorter and
/// are read by hyper.
const LONG: usize = 1 << 10;

/// Longest time for the client to read its refusal. If the connection closed before the client has sent everything, the
/// client could lose the part of the response that it has not read.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Size of a request's head, as far as it has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadSize {
    Fits,
    /// The request target alone is too long.
    LongTarget,
    /// All lines together are too long.
    LongHead,
}

impl HeadSize {
    /// Returns the size class of a head that begins with these bytes; `None` while it is not known.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        let head = &begin[..begin.len().min(MAX_HEAD)];
        let ends = |end: &[u8]| head.windows(end.len()).any(|window| window == end);
        if begin.len() <= LONG || ends(b"\n\r\n") || ends(b"\n\n") {
            Some(Self::Fits)
        } else if begin.len() <= MAX_HEAD {
            None
        } else if head.contains(&b'\n') {
            Some(Self::LongHead)
        } else {
            Some(Self::LongTarget)
        }
    }

    /// Returns the cause for the log and the response; `None` if the head fits.
    pub(super) fn refusal(self) -> Option<(&'static str, Bytes)> {
        let (cause, status, what) = match self {
            Self::Fits => return None,
            Self::LongTarget => ("long_target", StatusCode::URI_TOO_LONG, "the URL of the request is"),
            Self::LongHead => (
                "long_head",
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the URL and the headers of the request are together",
            ),
        };
        let limit = MAX_HEAD >> 10;
        let body = rest::error_body(&format!("{what} longer than {limit} KiB: send long values in the body"));
        let mut answer = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            body.len()
        )
        .into_bytes();
        answer.extend_from_slice(&body);
        Some((cause, answer.into()))
    }
}

/// Sends a refusal, and closes the connection once the client has sent everything or [`REFUSAL_TIMEOUT`] has passed.
pub(super) async fn refuse<I>(mut stream: Rewind<I>, answer: Bytes)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let refusing = async {
        stream.write_all(&answer).await?;
        stream.shutdown().await?;
        stream.discard().await
    };
    match tokio::time::timeout(REFUSAL_TIMEOUT, refusing).await {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a refusal could not be sent"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_too_long_by_its_target_or_by_all_its_lines() {
        let long = vec![b'a'; MAX_HEAD + 1];
        let target = [b"GET /", &long[..]].concat();
        let lines = [b"GET / HTTP/1.1\r\nx-a: ", &long[..]].concat();
        let whole = [b"GET / HTTP/1.1\r\nx-a: ", &long[..2 * LONG], b"\r\n\r\n"].concat();
        assert_eq!(HeadSize::of(&target), Some(HeadSize::LongTarget));
        assert_eq!(HeadSize::of(&lines), Some(HeadSize::LongHead));
        assert_eq!(HeadSize::of(&whole), Some(HeadSize::Fits));
        assert_eq!(HeadSize::of(&lines[..LONG]), Some(HeadSize::Fits));
        assert_eq!(HeadSize::of(&lines[..2 * LONG]), None);
        assert!(HeadSize::Fits.refusal().is_none());
    }
}

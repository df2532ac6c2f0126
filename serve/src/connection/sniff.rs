//! Reads ahead until the protocol of a connection is known, or until its next request begins.

use std::io;

use crate::lifetime::{LATE_REQUESTS, closed};
use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rewind::Rewind;

/// Limits of the wait for a client's bytes.
#[derive(Clone, Copy)]
pub(super) struct WaitLimits<'a> {
    pub(super) deadline: Instant,
    /// Cancelled when the port shuts down.
    pub(super) stop: &'a CancellationToken,
}

/// HTTP version that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
}

/// First bytes of HTTP/2's connection preface (RFC 9113, 3.4). No HTTP/1.1 method begins with them.
const PREFACE: &[u8] = b"PRI ";

impl HttpVersion {
    /// Returns the protocol of a connection that begins with these bytes; `None` while both are possible.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        let common = begin.len().min(PREFACE.len());
        if begin[..common] != PREFACE[..common] {
            Some(Self::Http1)
        } else if common == PREFACE.len() {
            Some(Self::Http2)
        } else {
            None
        }
    }
}

/// Reads ahead until `decide` returns a value for the bytes read so far, and keeps the bytes in the stream. Returns
/// `None` if the client disconnects, the deadline passes, or the port shuts down and no request arrives within
/// [`LATE_REQUESTS`].
pub(super) async fn sniff<I: AsyncRead + Unpin, T>(
    stream: &mut Rewind<I>,
    limits: WaitLimits<'_>,
    decide: impl FnMut(&[u8]) -> Option<T>,
) -> Option<T> {
    tokio::select! {
        // `biased`: a request that has begun is served even during shutdown.
        biased;
        decided = read_until(stream, decide) => decided.unwrap_or_else(|error| {
            tracing::debug!(%error, "reading from an idle connection failed");
            None
        }),
        () = closed(limits.stop, LATE_REQUESTS) => None,
        () = tokio::time::sleep_until(limits.deadline) => None,
    }
}

async fn read_until<I: AsyncRead + Unpin, T>(
    stream: &mut Rewind<I>,
    mut decide: impl FnMut(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    loop {
        if let Some(decided) = decide(stream.read_ahead()) {
            return Ok(Some(decided));
        }
        if stream.fill_buffer().await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HttpVersion;

    #[test]
    fn the_first_bytes_decide_as_soon_as_possible() {
        for (begin, expected) in [
            (&b""[..], None),
            (b"P", None),
            (b"PRI", None),
            (b"PRI ", Some(HttpVersion::Http2)),
            (b"PRI * HTTP/2.0\r\n", Some(HttpVersion::Http2)),
            (b"PRINT / HTTP/1.1", Some(HttpVersion::Http1)),
            (b"PO", Some(HttpVersion::Http1)),
            (b"G", Some(HttpVersion::Http1)),
        ] {
            assert_eq!(HttpVersion::of(begin), expected, "{begin:?}");
        }
    }
}

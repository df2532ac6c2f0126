//! Waiting for what a client says first, or next.

use std::io;

use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::rewind::Rewind;

/// How long a client may say nothing.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) deadline: Instant,
    /// Cancelled when nobody is waited for any more.
    pub(super) stop: &'a CancellationToken,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpVersion {
    Http1,
    Http2,
}

/// How HTTP/2 begins. No method of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI ";

impl HttpVersion {
    /// What begins so; nothing as long as that may be either.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        let common = begin.len().min(PREFACE.len());
        match (begin[..common] == PREFACE[..common], common) {
            (false, _) => Some(Self::Http1),
            (true, common) if common == PREFACE.len() => Some(Self::Http2),
            (true, _) => None,
        }
    }
}

/// Waits until what was read is enough to tell; nothing if the client leaves, breaks off, or says too little
/// in time. What was read stays in the stream.
pub(super) async fn sniff<I: AsyncRead + Unpin, T>(
    stream: &mut Rewind<I>,
    wait: Wait<'_>,
    recognised: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    tokio::select! {
        // Who has begun to ask is answered, whatever else is.
        biased;
        sniffed = listen(stream, recognised) => sniffed.unwrap_or_else(|error| {
            tracing::debug!(%error, "a quiet connection broke");
            None
        }),
        () = wait.stop.cancelled() => None,
        () = tokio::time::sleep_until(wait.deadline) => None,
    }
}

async fn listen<I: AsyncRead + Unpin, T>(
    stream: &mut Rewind<I>,
    recognised: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    loop {
        if let Some(recognised) = recognised(stream.read()) {
            return Ok(Some(recognised));
        }
        if stream.read_more().await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HttpVersion;

    #[test]
    fn the_first_bytes_tell_as_soon_as_they_can() {
        for (begin, recognised) in [
            (&b""[..], None),
            (b"P", None),
            (b"PRI", None),
            (b"PRI ", Some(HttpVersion::Http2)),
            (b"PRI * HTTP/2.0\r\n", Some(HttpVersion::Http2)),
            (b"PRINT / HTTP/1.1", Some(HttpVersion::Http1)),
            (b"PO", Some(HttpVersion::Http1)),
            (b"G", Some(HttpVersion::Http1)),
        ] {
            assert_eq!(HttpVersion::of(begin), recognised, "{begin:?}");
        }
    }
}

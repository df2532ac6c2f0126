//! Waiting for what a client says first, or next.

use std::io;

use tokio::io::AsyncRead;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::replay::Replay;

/// How long a client may say nothing.
#[derive(Clone, Copy)]
pub(super) struct Wait<'a> {
    pub(super) deadline: Instant,
    /// Cancelled when nobody is waited for any more.
    pub(super) stop: &'a CancellationToken,
}

/// What a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

/// How HTTP/2 begins. No method of HTTP/1.1 does.
const PREFACE: &[u8] = b"PRI ";

impl Protocol {
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
pub(super) async fn hear<I: AsyncRead + Unpin, T>(
    stream: &mut Replay<I>,
    wait: Wait<'_>,
    told: impl Fn(&[u8]) -> Option<T>,
) -> Option<T> {
    tokio::select! {
        // Who has begun to ask is answered, whatever else is.
        biased;
        heard = listen(stream, told) => heard.unwrap_or_else(|error| {
            tracing::debug!(%error, "a quiet connection broke");
            None
        }),
        () = wait.stop.cancelled() => None,
        () = tokio::time::sleep_until(wait.deadline) => None,
    }
}

async fn listen<I: AsyncRead + Unpin, T>(
    stream: &mut Replay<I>,
    told: impl Fn(&[u8]) -> Option<T>,
) -> io::Result<Option<T>> {
    loop {
        if let Some(told) = told(stream.read()) {
            return Ok(Some(told));
        }
        if stream.read_more().await? == 0 {
            return Ok(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Protocol;

    #[test]
    fn the_first_bytes_tell_as_soon_as_they_can() {
        for (begin, told) in [
            (&b""[..], None),
            (b"P", None),
            (b"PRI", None),
            (b"PRI ", Some(Protocol::Http2)),
            (b"PRI * HTTP/2.0\r\n", Some(Protocol::Http2)),
            (b"PRINT / HTTP/1.1", Some(Protocol::Http1)),
            (b"PO", Some(Protocol::Http1)),
            (b"G", Some(Protocol::Http1)),
        ] {
            assert_eq!(Protocol::of(begin), told, "{begin:?}");
        }
    }
}

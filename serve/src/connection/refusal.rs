//! Responses that this crate writes itself because hyper must not read the request: its head is too long, or it is
//! HTTP/1.1 on a port for HTTP/2. hyper would refuse such requests with an empty body.

use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};

use super::rewind::Rewind;

/// Bytes of a request head above which this crate buffers the head and checks its size before hyper reads it. Nearly
/// all heads are shorter, and are read by hyper directly.
const LONG: usize = 1 << 10;

/// Longest time for the client to read its refusal. A connection that closes before the client has sent everything is
/// reset, and the client may lose the part of the response that it has not read.
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

/// Search for the end of a head that arrives in pieces. Each byte is searched once: a client may send a long head byte
/// by byte.
#[derive(Debug)]
pub(super) struct HeadSearch {
    /// Maximum number of bytes of a head.
    max: usize,
    /// Number of bytes in which no end was found.
    searched: usize,
}

/// Bytes that end a head, after the end of its last line.
const ENDS: [&[u8]; 2] = [b"\n\r\n", b"\n\n"];

/// Length of the longest of the [`ENDS`].
const LONGEST_END: usize = 3;

impl HeadSearch {
    /// Creates a search in a head that may have `max` bytes.
    pub(super) fn new(max: usize) -> Self {
        Self { max, searched: 0 }
    }

    /// Returns the size of the head that begins with these bytes; `None` if more bytes are needed to decide. The bytes
    /// begin with those of the previous call.
    pub(super) fn size(&mut self, begin: &[u8]) -> Option<HeadSize> {
        if begin.len() <= LONG || has_end(self.unsearched(begin)) {
            return Some(HeadSize::Fits);
        }
        self.searched = begin.len().min(self.max);
        match &begin[..self.searched] {
            _ if begin.len() <= self.max => None,
            head if head.contains(&b'\n') => Some(HeadSize::LongHead),
            _ => Some(HeadSize::LongTarget),
        }
    }

    /// Returns the bytes in which the end may be: the new ones, and those before them with which it may begin.
    fn unsearched<'a>(&self, begin: &'a [u8]) -> &'a [u8] {
        &begin[self.searched.saturating_sub(LONGEST_END - 1)..begin.len().min(self.max)]
    }
}

fn has_end(bytes: &[u8]) -> bool {
    ENDS.iter().any(|end| bytes.windows(end.len()).any(|window| window == *end))
}

impl HeadSize {
    /// Returns the cause for the log and the encoded response; `None` if the head fits.
    pub(super) fn refusal(self, max: usize) -> Option<(&'static str, Bytes)> {
        let (cause, status, what) = match self {
            Self::Fits => return None,
            Self::LongTarget => ("long_target", StatusCode::URI_TOO_LONG, "the URL of the request is"),
            Self::LongHead => (
                "long_head",
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                "the URL and the headers of the request are together",
            ),
        };
        let limit = max >> 10;
        Some((cause, response(status, &format!("{what} longer than {limit} KiB: send long values in the body"))))
    }
}

/// The response to a client of HTTP/1.1 on a port for HTTP/2.
pub(super) fn http1(sentence: &str) -> Bytes {
    response(StatusCode::UNSUPPORTED_MEDIA_TYPE, sentence)
}

/// A response that closes the connection. The sentence must need no escapes in JSON.
fn response(status: StatusCode, sentence: &str) -> Bytes {
    let body = format!("{{\"error\":\"{sentence}\"}}");
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    (head + &body).into()
}

/// Sends a refusal, and closes the connection once its client has sent everything, or some time later.
pub(super) async fn send<I>(mut stream: Rewind<I>, answer: Bytes)
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

    const MAX_HEAD: usize = 64 << 10;

    fn of(begin: &[u8]) -> Option<HeadSize> {
        HeadSearch::new(MAX_HEAD).size(begin)
    }

    #[test]
    fn a_head_is_too_long_by_its_target_or_by_all_its_lines() {
        let long = vec![b'a'; MAX_HEAD + 1];
        let target = [b"GET /", &long[..]].concat();
        let lines = [b"GET / HTTP/1.1\r\nx-a: ", &long[..]].concat();
        let whole = [b"GET / HTTP/1.1\r\nx-a: ", &long[..2 * LONG], b"\r\n\r\n"].concat();
        assert_eq!(of(&target), Some(HeadSize::LongTarget));
        assert_eq!(of(&lines), Some(HeadSize::LongHead));
        assert_eq!(of(&whole), Some(HeadSize::Fits));
        assert_eq!(of(&lines[..LONG]), Some(HeadSize::Fits));
        assert_eq!(of(&lines[..2 * LONG]), None);
        assert!(HeadSize::Fits.refusal(MAX_HEAD).is_none());
    }

    #[test]
    fn the_end_of_a_head_that_arrives_byte_by_byte_is_found_in_the_new_bytes() {
        for end in ENDS {
            let head = [b"GET / HTTP/1.1\r\nx-a: ", &vec![b'a'; MAX_HEAD / 2][..], end].concat();
            let mut search = HeadSearch::new(MAX_HEAD);
            for length in 2 * LONG..head.len() {
                assert_eq!(search.size(&head[..length]), None);
                assert_eq!(search.unsearched(&head[..=length]).len(), LONGEST_END);
            }
            assert_eq!(search.size(&head), Some(HeadSize::Fits));
        }
    }
}

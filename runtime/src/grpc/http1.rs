//! Answers HTTP/1.1 requests on the gRPC port, from clients that took it for the HTTP port and cannot read HTTP/2
//! frames.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use weir_protocol::rest;
use weir_serve::{GRACE, Stream};

use super::content_type::SENTENCE;

/// Longest wait for a client's first bytes, after which the server assumes HTTP/2. An HTTP/1.1 client sends its request
/// at once.
const FIRST_BYTES: Duration = Duration::from_secs(1);

/// Start of the HTTP/2 preface. Methods of HTTP/1.1 may share its first letters.
const PREFACE: &[u8] = b"PRI ";

/// Returns true if the client's first bytes are an HTTP/1.1 request. The bytes are only peeked.
pub(super) async fn begins(stream: &Stream, stop: &CancellationToken) -> bool {
    let mut bytes = [0; PREFACE.len()];
    let begun = tokio::select! {
        begun = stream.peek(&mut bytes) => begun.unwrap_or(0),
        () = tokio::time::sleep(FIRST_BYTES) => 0,
        () = stop.cancelled() => 0,
    };
    is_method(&bytes[..begun])
}

fn is_method(begin: &[u8]) -> bool {
    begin.first().is_some_and(u8::is_ascii_uppercase) && !PREFACE.starts_with(begin)
}

/// Answers such a client with an HTTP/1.1 error.
pub(super) async fn refuse(stream: Stream) {
    // The connection ends either way, so errors and timeouts are ignored.
    let _ = tokio::time::timeout(GRACE, answer(stream)).await;
}

async fn answer(mut stream: Stream) -> io::Result<()> {
    let body = rest::error_body(SENTENCE);
    let head = format!(
        "HTTP/1.1 415 Unsupported Media Type\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await?;
    stream.shutdown().await?;
    // Unread bytes would reset the connection on close, perhaps before the client has read the response.
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_method;

    #[test]
    fn only_http1_requests_are_recognised_as_such() {
        for request in ["GET ", "POST", "PUT ", "HEAD", "PO"] {
            assert!(is_method(request.as_bytes()), "{request}");
        }
        for other in [&b""[..], b"P", b"PRI", b"PRI ", b"\x16\x03\x01", b"get "] {
            assert!(!is_method(other), "{other:?}");
        }
    }
}

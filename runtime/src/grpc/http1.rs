//! HTTP/1.1 on the gRPC port: from a client that took it for the HTTP port, and to which frames of HTTP/2 say nothing.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;
use weir_ops::socket::{GRACE, Stream};
use weir_protocol::rest;

use super::content_type::SENTENCE;

/// The longest wait for a client's first bytes, after which it is served HTTP/2. Who speaks HTTP/1.1 sends a request at
/// once.
const FIRST_BYTES: Duration = Duration::from_secs(1);

/// How HTTP/2's preface begins. A method of HTTP/1.1 may begin with its first letter.
const PREFACE: &[u8] = b"PRI ";

/// True if a client begins with a request of HTTP/1.1; its bytes stay to be read.
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

/// Answers such a client in its own words.
pub(super) async fn refuse(stream: Stream) {
    // Nobody else is concerned by how this ends.
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
    // What is left unread would reset the connection, perhaps before its client has read the answer.
    let mut unread = [0; 1024];
    while stream.read(&mut unread).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::is_method;

    #[test]
    fn only_requests_of_http1_are_taken_for_them() {
        for request in ["GET ", "POST", "PUT ", "HEAD", "PO"] {
            assert!(is_method(request.as_bytes()), "{request}");
        }
        for other in [&b""[..], b"P", b"PRI", b"PRI ", b"\x16\x03\x01", b"get "] {
            assert!(!is_method(other), "{other:?}");
        }
    }
}

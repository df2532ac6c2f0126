//! A minimal HTTP/1.1 client connection: a status, a content length, a body.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use memchr::memmem::Finder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::response::Response;

/// Size of the read buffer in bytes: enough for a complete response of the measured models, so that one read suffices.
/// The thousand classes of resnet18 take 4 kB, or 20 kB as JSON.
const BUFFER: usize = 64 << 10;

/// A keep-alive connection with the last response read from it.
pub(crate) struct HttpConnection {
    stream: TcpStream,
    buffer: Vec<u8>,
    head_end: Finder<'static>,
}

/// The parsed head of a response.
struct Head {
    /// Length of the head in bytes, including line ends.
    length: usize,
    body: usize,
    header_length: Option<usize>,
}

impl HttpConnection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self { stream, buffer: Vec::with_capacity(BUFFER), head_end: Finder::new(b"\r\n\r\n") }
    }

    pub(crate) async fn send(&mut self, request: &Bytes) -> anyhow::Result<Response<'_>> {
        self.stream.write_all(request).await?;
        self.buffer.clear();
        let head = loop {
            self.fill().await?;
            if let Some(end) = self.head_end.find(&self.buffer) {
                break read_head(&self.buffer[..end + 4])?;
            }
        };
        let whole = head.length + head.body;
        while self.buffer.len() < whole {
            self.fill().await?;
        }
        ensure!(self.buffer.len() == whole, "unexpected bytes after the response");
        Ok(Response { header_length: head.header_length, body: &self.buffer[head.length..] })
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(count > 0, "the server closed the connection");
        Ok(())
    }
}

/// Parses the head, including its final empty line.
fn read_head(head: &[u8]) -> anyhow::Result<Head> {
    let text = std::str::from_utf8(head).context("the head of the response is not text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    ensure!(status.starts_with("HTTP/1.1 200"), "the server returned '{status}'");
    let mut body = None;
    let mut header_length = None;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            body = Some(value.trim().parse()?);
        } else if name.eq_ignore_ascii_case("inference-header-content-length") {
            header_length = Some(value.trim().parse()?);
        }
    }
    let Some(body) = body else {
        bail!("the response has no content length");
    };
    Ok(Head { length: head.len(), body, header_length })
}

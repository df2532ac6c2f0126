//! HTTP/1.1 as far as answers of model servers go: a status, a content length, a body.

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use memchr::memmem::Finder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::connection::Answer;

/// Room for a whole answer of the measured models, so that one read gets it: resnet18's thousand
/// classes are 4 kB, or 20 as JSON.
const BUFFER: usize = 64 << 10;

/// A keep-alive connection and the answer last read from it.
pub(crate) struct Connection {
    stream: TcpStream,
    buffer: Vec<u8>,
    head_end: Finder<'static>,
}

/// What the head of an answer says.
struct Head {
    /// Bytes of the head.
    length: usize,
    body: usize,
    header_length: Option<usize>,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::with_capacity(BUFFER),
            head_end: Finder::new(b"\r\n\r\n"),
        }
    }

    pub(crate) async fn ask(&mut self, request: &Bytes) -> anyhow::Result<Answer<'_>> {
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
        ensure!(self.buffer.len() == whole, "bytes follow the answer");
        Ok(Answer {
            header_length: head.header_length,
            body: &self.buffer[head.length..],
        })
    }

    async fn fill(&mut self) -> anyhow::Result<()> {
        let count = self.stream.read_buf(&mut self.buffer).await?;
        ensure!(count > 0, "the server closed the connection");
        Ok(())
    }
}

/// Reads the head, both of its line ends included.
fn read_head(head: &[u8]) -> anyhow::Result<Head> {
    let text = std::str::from_utf8(head).context("the head of the answer is not text")?;
    let mut lines = text.split("\r\n");
    let status = lines.next().unwrap_or_default();
    ensure!(
        status.starts_with("HTTP/1.1 200"),
        "the server answered '{status}'"
    );
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
        bail!("the answer has no content length");
    };
    Ok(Head {
        length: head.len(),
        body,
        header_length,
    })
}

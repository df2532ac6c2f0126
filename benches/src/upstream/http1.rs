//! A minimal HTTP/1.1 server, sufficient for the measured proxies: bodies with a content length, one request at a time.

use anyhow::{Context, bail, ensure};
use memchr::memmem::Finder;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::{SIZE, Tail};

/// Size of the read buffer in bytes: about as much as a loopback socket holds.
const BUFFER: usize = 256 << 10;

/// Response to readiness probes. Weir reads the capacity, which is high enough to admit all requests; other proxies
/// ignore it.
const READY: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nweir-capacity: 1024\r\n\r\n";

/// The parsed head of a request.
struct Head {
    length: usize,
    body: usize,
    is_get: bool,
}

/// Responds to requests until the client closes the connection.
pub(crate) async fn serve(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut buffer = Vec::with_capacity(BUFFER);
    let head_end = Finder::new(b"\r\n\r\n");
    let mut response = response_head();
    let split = response.len();
    let mut tail = Tail::new();
    loop {
        let head = match head_end.find(&buffer) {
            Some(end) => read_head(&buffer[..end + 4])?,
            None if stream.read_buf(&mut buffer).await? == 0 => return Ok(()),
            None => continue,
        };
        let received = &buffer[head.length..];
        ensure!(received.len() <= head.body, "unexpected bytes after the request");
        tail.push(received);
        let mut left = head.body - received.len();
        while left > 0 {
            buffer.clear();
            ensure!(stream.read_buf(&mut buffer).await? > 0, "a request was truncated");
            ensure!(buffer.len() <= left, "unexpected bytes after the request");
            left -= buffer.len();
            tail.push(&buffer);
        }
        buffer.clear();
        if head.is_get {
            stream.write_all(READY).await?;
            continue;
        }
        response.truncate(split);
        response.extend_from_slice(tail.bytes());
        stream.write_all(&response).await?;
    }
}

fn response_head() -> Vec<u8> {
    let json = format!(
        "{{\"model_name\":\"upstream\",\"outputs\":[{{\"name\":\"OUTPUT0\",\"datatype\":\"FP32\",\
         \"shape\":[1,{}],\"parameters\":{{\"binary_data_size\":{SIZE}}}}}]}}",
        SIZE / 4
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/octet-stream\r\n\
         inference-header-content-length: {}\r\ncontent-length: {}\r\n\r\n{json}",
        json.len(),
        json.len() + SIZE
    );
    head.into_bytes()
}

/// Parses the head, including its final empty line.
fn read_head(head: &[u8]) -> anyhow::Result<Head> {
    let text = std::str::from_utf8(head).context("the head of the request is not text")?;
    let mut body = 0;
    for line in text.split("\r\n").skip(1) {
        let (name, value) = line.split_once(':').unwrap_or_default();
        if name.eq_ignore_ascii_case("content-length") {
            body = value.trim().parse()?;
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            bail!("a body without a content length is not supported");
        }
    }
    Ok(Head { length: head.len(), body, is_get: head.starts_with(b"GET ") })
}

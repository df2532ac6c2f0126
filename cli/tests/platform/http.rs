//! A minimal HTTP client.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// Timeout of a response, longer than a service takes to start from zero.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Sends a request, and returns the status and the text of the response, including its headers.
pub(crate) fn send(address: SocketAddr, host: &str, method: &str, path: &str) -> (u16, String) {
    send_with_key(address, host, (method, path), None)
}

/// Like [`send`], with a key in the header `x-api-key`.
pub(crate) fn send_with_key(
    address: SocketAddr,
    host: &str,
    (method, path): (&str, &str),
    key: Option<&str>,
) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let body = match method {
        "POST" => r#"{"inputs": []}"#,
        _ => "",
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\nconnection: close\r\n{}\r\n{body}",
        body.len(),
        key.map_or_else(String::new, |key| format!("x-api-key: {key}\r\n")),
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let status = text.split(' ').nth(1).unwrap_or_default();
    (status.parse().unwrap_or_default(), text)
}

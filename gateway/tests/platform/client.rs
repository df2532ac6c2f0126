//! A plain HTTP client for tests.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;

/// A response that was read to its end.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answered {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.unwrap_or_else(|| panic!("no {name}: {self:?}")).to_str().unwrap()
    }
}

/// A client with one HTTP/1.1 connection.
pub(crate) struct Client {
    address: SocketAddr,
    sender: Option<http1::SendRequest<Full<Bytes>>>,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self { address, sender: None }
    }

    /// Sends a request over the same connection as before, if it is still open.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answered, hyper::Error> {
        let is_open = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            self.sender = Some(connect(self.address).await);
        }
        let response = self.sender.as_mut().unwrap().send_request(request).await?;
        read(response).await
    }
}

pub(crate) async fn connect<B>(address: SocketAddr) -> http1::SendRequest<B>
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) async fn connect_h2<B>(address: SocketAddr) -> http2::SendRequest<B>
where
    B: http_body::Body + Send + Unpin + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let stream = TcpStream::connect(address).await.unwrap();
    // Head and message are sent separately; with Nagle's algorithm each call would wait for an acknowledgement.
    stream.set_nodelay(true).unwrap();
    let executor = TokioExecutor::new();
    let (sender, connection) = http2::handshake(executor, TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(crate) async fn read(response: Response<Incoming>) -> Result<Answered, hyper::Error> {
    let (parts, body) = response.into_parts();
    let body = body.collect().await?.to_bytes();
    Ok(Answered { status: parts.status, headers: parts.headers, body })
}

/// Creates a POST request to a host and path.
pub(crate) fn post(host: &str, path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    let request = Request::post(path).header("host", host);
    request.body(Full::new(body.into())).unwrap()
}

/// Adds a header to a request.
pub(crate) fn with(mut request: Request<Full<Bytes>>, name: &'static str, value: &str) -> Request<Full<Bytes>> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

/// Sends one request over a connection of its own.
pub(crate) async fn once(address: SocketAddr, request: Request<Full<Bytes>>) -> Answered {
    Client::new(address).send(request).await.unwrap()
}

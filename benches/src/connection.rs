//! A connection with one request at a time, over HTTP or gRPC.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use tokio::net::TcpStream;

use crate::args::{Args, Protocol};
use crate::grpc::GrpcConnection;
use crate::http1::HttpConnection;
use crate::response::Response;

/// A connection of the load generator to the server.
pub(crate) enum Connection {
    Http(Box<HttpConnection>),
    Grpc(Box<GrpcConnection>),
}

impl Connection {
    /// Connects to the server for the protocol of the arguments.
    ///
    /// # Errors
    /// Fails if there is no server at the address, or if the server speaks another protocol.
    pub(crate) async fn open(args: &Args) -> anyhow::Result<Self> {
        let stream = connect(args.address).await?;
        Ok(match args.protocol {
            Protocol::HttpJson | Protocol::HttpBinary => Self::Http(Box::new(HttpConnection::new(stream))),
            Protocol::Grpc => Self::Grpc(Box::new(GrpcConnection::new(stream).await?)),
        })
    }

    /// Sends a request and waits for its whole response.
    ///
    /// # Errors
    /// Fails on any status except success, on a truncated response, and on a broken connection.
    pub(crate) async fn send(&mut self, request: &Bytes) -> anyhow::Result<Response<'_>> {
        match self {
            Self::Http(connection) => connection.send(request).await,
            Self::Grpc(connection) => connection.send(request).await,
        }
    }
}

async fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

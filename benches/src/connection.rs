//! A connection that asks one request at a time, whichever the protocol.

use std::net::SocketAddr;

use anyhow::Context;
use bytes::Bytes;
use tokio::net::TcpStream;

use crate::args::{Args, Protocol};
use crate::{grpc, http1};

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    /// Bytes of the JSON before the blobs, over HTTP where there are any.
    pub(crate) header_length: Option<usize>,
    /// The body; over gRPC with the prefix of its message.
    pub(crate) body: &'a [u8],
}

/// An open connection.
pub(crate) enum Connection {
    Http(Box<http1::Connection>),
    Grpc(Box<grpc::Connection>),
}

impl Connection {
    /// Connects as the protocol wants.
    ///
    /// # Errors
    /// Nobody listens there, or not for that protocol.
    pub(crate) async fn open(args: &Args) -> anyhow::Result<Self> {
        let stream = connect(args.address).await?;
        Ok(match args.protocol {
            Protocol::HttpJson | Protocol::HttpBinary => {
                Self::Http(Box::new(http1::Connection::new(stream)))
            }
            Protocol::Grpc => Self::Grpc(Box::new(grpc::Connection::new(stream).await?)),
        })
    }

    /// Sends a request and waits for all of its answer.
    ///
    /// # Errors
    /// Any status but success; an answer that ends early; a connection that breaks.
    pub(crate) async fn ask(&mut self, request: &Bytes) -> anyhow::Result<Answer<'_>> {
        match self {
            Self::Http(connection) => connection.ask(request).await,
            Self::Grpc(connection) => connection.ask(request).await,
        }
    }
}

async fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.with_context(|| format!("cannot connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

//! Opens sockets to upstreams.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use weir_cluster::Address;

use super::UpstreamError;

/// Longest time to connect: replicas are near, so this allows for some retransmissions.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// An open TCP or Unix socket.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

pub(super) async fn dial(address: &Address) -> Result<Socket, UpstreamError> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, connect(address));
    match connecting.await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(UpstreamError::connect_failed(format!(
            "connecting to {address}: {error}"
        ))),
        Err(_) => Err(UpstreamError::connect_failed(format!(
            "connecting to {address}: no answer within {} s",
            CONNECT_TIMEOUT.as_secs()
        ))),
    }
}

async fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Tcp(address) => {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            Ok(Socket::Tcp(stream))
        }
        Address::Unix(path) => UnixStream::connect(path).await.map(Socket::Unix),
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Unix(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Unix(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Unix(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Unix(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}

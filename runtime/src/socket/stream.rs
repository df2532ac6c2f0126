//! A connection that ends with the server while nothing was ever said on it.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// A TCP stream that reads as closed once the server stops, as long as its client has sent nothing:
/// until the first byte the HTTP libraries cannot tell which protocol to close gracefully, and a
/// silent client would hold up the end.
pub struct Stream {
    tcp: TcpStream,
    /// Gone after the first byte.
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    /// Free again when the connection ends.
    _place: OwnedSemaphorePermit,
}

impl Stream {
    /// Wraps an accepted connection. Answers are small and awaited, so Nagle's algorithm is off.
    pub(super) fn new(
        tcp: TcpStream,
        place: OwnedSemaphorePermit,
        stop: CancellationToken,
    ) -> Self {
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        Self {
            tcp,
            stop: Some(Box::pin(stop.cancelled_owned())),
            _place: place,
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if Pin::new(&mut self.tcp)
            .poll_read(context, buffer)?
            .is_ready()
        {
            self.stop = None;
            return Poll::Ready(Ok(()));
        }
        match &mut self.stop {
            // Nothing read and no error is how the end of a stream reads.
            Some(stop) => stop.as_mut().poll(context).map(Ok),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(context)
    }
}

//! An accepted connection. It ends with the server while its client has sent nothing, and when its client no
//! longer takes what is written to it.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::Traffic;

/// A TCP stream that reads as closed once the server stops, as long as its client has sent nothing:
/// until the first byte the HTTP libraries cannot tell which protocol to close gracefully, and a
/// silent client would hold up the end. Writing to it fails when its client has taken no byte for the idle
/// time, which the HTTP libraries do not watch.
pub struct Stream {
    tcp: TcpStream,
    /// `None` after the first byte.
    stop: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    write_idle: Duration,
    /// Timer that runs while bytes wait to be taken.
    blocked: Option<Pin<Box<Sleep>>>,
    traffic: Arc<Traffic>,
    /// Counts against the limit of connections until the connection ends.
    _permit: OwnedSemaphorePermit,
}

/// Slices of at most this many bytes together are joined before they are written: that costs less than a vectored
/// write.
const SMALL: usize = 8 << 10;

impl Stream {
    /// Wraps an accepted connection. Answers are small and awaited, so Nagle's algorithm is off.
    pub(super) fn new(
        tcp: TcpStream,
        permit: OwnedSemaphorePermit,
        stop: CancellationToken,
        write_idle: Duration,
    ) -> Self {
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        Self {
            tcp,
            stop: Some(Box::pin(stop.cancelled_owned())),
            write_idle,
            blocked: None,
            traffic: Arc::default(),
            _permit: permit,
        }
    }

    /// Traffic of this connection, for the task that drives it.
    #[must_use]
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Address of the client; `None` if the connection has ended already.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.tcp.peer_addr().ok().map(|address| address.ip())
    }

    /// Records the result of a write.
    fn after_write(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(result) = written else {
            return self.poll_blocked(context);
        };
        if self.blocked.take().is_some() {
            self.traffic.clear_blocked();
        }
        if let Ok(bytes) = result {
            self.traffic.add_written(bytes);
        }
        Poll::Ready(result)
    }

    fn poll_blocked(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let idle = self.write_idle;
        self.traffic.set_blocked();
        let blocked = self
            .blocked
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(idle)));
        blocked
            .as_mut()
            .poll(context)
            .map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

fn joined(slices: &[IoSlice<'_>], total: usize) -> Vec<u8> {
    let mut whole = Vec::with_capacity(total);
    for slice in slices {
        whole.extend_from_slice(slice);
    }
    whole
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
        let written = Pin::new(&mut self.tcp).poll_write(context, bytes);
        self.after_write(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        let written = if slices.len() > 1 && total <= SMALL {
            Pin::new(&mut self.tcp).poll_write(context, &joined(slices, total))
        } else {
            Pin::new(&mut self.tcp).poll_write_vectored(context, slices)
        };
        self.after_write(context, written)
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

//! An accepted connection. It ends soon after its port closes if the client has sent nothing, and it fails if the
//! client stops reading or reads too slowly.

use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::bounds::places::Place;
use crate::bounds::places::reserved::ConnectionPlace;
use crate::clock;
use crate::lifetime::LATE_REQUESTS;
use crate::{ConnectionLimits, Pace, Traffic};

/// A TCP stream with two additions. While its client has sent nothing, reads report the end of the stream once the
/// server stops. Before the first byte the HTTP libraries cannot determine which protocol to close gracefully, so a
/// silent client would delay the shutdown. Writes fail if the client has accepted no byte for too long, or accepts
/// bytes too slowly, which the HTTP libraries do not check.
pub struct Stream {
    tcp: TcpStream,
    /// Wait for the port to close; `None` after the first byte was read.
    port_end: Option<PortEnd>,
    stall: Duration,
    pace: Pace,
    /// The current wait for the client to accept bytes; `None` if it is not blocked.
    blocked: Option<Box<BlockedWrite>>,
    /// Total time of all such waits that have ended.
    waited: Duration,
    traffic: Arc<Traffic>,
    /// Counts against the limit on connections until the connection ends.
    place: ConnectionPlace,
}

/// Wait for the port to close, and then for a request that is on its way.
struct PortEnd {
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    late_requests: Option<Pin<Box<Sleep>>>,
}

/// Wait for the client to accept bytes.
struct BlockedWrite {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

/// Slices of at most this many bytes in total are joined before they are written, because that costs less than a
/// vectored write.
const SMALL: usize = 8 << 10;

impl Stream {
    /// Wraps an accepted connection. Nagle's algorithm is off, because clients wait for small responses.
    pub(crate) fn new(tcp: TcpStream, place: Place, stop: CancellationToken, limits: &ConnectionLimits) -> Self {
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        Self {
            tcp,
            port_end: Some(PortEnd { stop: Box::pin(stop.cancelled_owned()), late_requests: None }),
            stall: limits.stall,
            pace: limits.pace,
            blocked: None,
            waited: Duration::ZERO,
            traffic: Arc::new(Traffic::of(place.streams())),
            place: ConnectionPlace::new(place),
        }
    }

    /// Returns the traffic counters of this connection, for the task that drives it.
    #[must_use]
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// Returns the place of this connection, which may be exchanged for a reserved one.
    #[must_use]
    pub fn place(&self) -> ConnectionPlace {
        self.place.clone()
    }

    /// Returns the client's address; `None` if the connection has already ended.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.tcp.peer_addr().ok().map(|address| address.ip())
    }

    /// Waits for the first bytes from the client and copies them, up to the buffer's size. They stay in the socket, to
    /// be read later.
    ///
    /// # Errors
    /// Fails with the connection's error.
    pub async fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.tcp.peek(bytes).await
    }

    /// Updates the timers and counters after a write.
    fn after_write(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Ready(result) = written else {
            return self.poll_blocked(context);
        };
        if let Some(blocked) = self.blocked.take() {
            self.waited += blocked.since.elapsed();
            self.traffic.clear_blocked();
        }
        if let Ok(bytes) = result {
            self.traffic.add_written(bytes);
        }
        Poll::Ready(result)
    }

    fn poll_blocked(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let blocked = match &mut self.blocked {
            Some(blocked) => blocked,
            None => {
                self.traffic.set_blocked();
                let allowance = self.pace.allowance(self.traffic.written());
                // Bytes that the client accepted fast allow it at most one grace period of slowness later: see `pace`.
                let spent = allowance.saturating_sub(self.pace.grace);
                self.waited = self.waited.max(spent);
                let left = allowance.saturating_sub(self.waited).min(self.stall);
                self.blocked
                    .insert(Box::new(BlockedWrite { since: clock::now(), timer: Box::pin(tokio::time::sleep(left)) }))
            }
        };
        let is_over = blocked.timer.as_mut().poll(context);
        is_over.map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl PortEnd {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        ready!(self.stop.as_mut().poll(context));
        let timer = || Box::pin(tokio::time::sleep(LATE_REQUESTS));
        let late_requests = self.late_requests.get_or_insert_with(timer);
        late_requests.as_mut().poll(context)
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
        let before = buffer.filled().len();
        if Pin::new(&mut self.tcp).poll_read(context, buffer)?.is_ready() {
            self.port_end = None;
            self.traffic.add_read(buffer.filled().len() - before);
            return Poll::Ready(Ok(()));
        }
        match &mut self.port_end {
            // A read that returns no bytes and no error reports the end of the stream.
            Some(port_end) => port_end.poll(context).map(Ok),
            None => Poll::Pending,
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
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

//! An accepted connection. It ends soon after its port while its client has sent nothing, and when its client no
//! longer takes what is written to it, or too slowly.

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

use super::places::Place;
use super::reserved::HeldPlace;
use super::serve::LATE_REQUESTS;
use super::{ConnectionLimits, Pace, Traffic};

/// A TCP stream that reads as closed once the server stops and no request is on its way, as long as its client has sent
/// nothing: until the first byte the HTTP libraries cannot tell which protocol to close gracefully, and a
/// silent client would hold up the end. Writing to it fails when its client has taken no byte for too long, or
/// takes them too slowly, which the HTTP libraries do not watch.
pub struct Stream {
    tcp: TcpStream,
    /// `None` after the first byte.
    port_end: Option<PortEnd>,
    stall: Duration,
    pace: Pace,
    /// The wait while bytes are to be taken.
    blocked: Option<Box<BlockedWrite>>,
    /// Time of all such waits that have ended.
    waited: Duration,
    traffic: Arc<Traffic>,
    /// Counts against the limit of connections until the connection ends.
    place: HeldPlace,
}

/// The wait for the port to close, and then for a request that is on its way.
struct PortEnd {
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
    late_requests: Option<Pin<Box<Sleep>>>,
}

/// A wait for the client to take bytes.
struct BlockedWrite {
    since: Instant,
    timer: Pin<Box<Sleep>>,
}

/// Slices of at most this many bytes together are joined before they are written: that costs less than a vectored
/// write.
const SMALL: usize = 8 << 10;

impl Stream {
    /// Wraps an accepted connection. Answers are small and awaited, so Nagle's algorithm is off.
    pub(super) fn new(tcp: TcpStream, place: Place, stop: CancellationToken, limits: &ConnectionLimits) -> Self {
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
            place: HeldPlace::new(place),
        }
    }

    /// Traffic of this connection, for the task that drives it.
    #[must_use]
    pub fn traffic(&self) -> Arc<Traffic> {
        Arc::clone(&self.traffic)
    }

    /// The place of this connection, for who may exchange it.
    #[must_use]
    pub fn place(&self) -> HeldPlace {
        self.place.clone()
    }

    /// Address of the client; `None` if the connection has ended already.
    #[must_use]
    pub fn peer(&self) -> Option<IpAddr> {
        self.tcp.peer_addr().ok().map(|address| address.ip())
    }

    /// Waits for the first bytes that the client sends, up to as many as there is room for; they stay to be read.
    ///
    /// # Errors
    /// The connection's own.
    pub async fn peek(&self, bytes: &mut [u8]) -> io::Result<usize> {
        self.tcp.peek(bytes).await
    }

    /// Records the result of a write.
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
                // Bytes taken fast buy a grace of slowness later, and no more: see `pace`.
                let spent = allowance.saturating_sub(self.pace.grace);
                self.waited = self.waited.max(spent);
                let left = allowance.saturating_sub(self.waited).min(self.stall);
                self.blocked
                    .insert(Box::new(BlockedWrite { since: Instant::now(), timer: Box::pin(tokio::time::sleep(left)) }))
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
            // Nothing read and no error is how the end of a stream reads.
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

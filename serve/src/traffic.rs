//! Traffic of a connection, by which an idle connection is distinguished from one in use.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::bounds::places::ClientStreams;
use crate::http2::streams::{self, StreamExecutor, StreamProgress};
use crate::tunnel::Tunnel;

/// Requests in flight and bytes read and written on one connection.
#[derive(Debug, Default)]
pub struct Traffic {
    /// In the lower 32 bits, the requests whose heads have arrived and whose responses have not ended; in the upper 32
    /// bits, all requests that have begun.
    requests: AtomicU64,
    /// Bytes written so far. Only the connection's own task writes.
    written: AtomicU64,
    /// Bytes read so far. Only the connection's own task reads.
    read: AtomicU64,
    /// True while the client accepts no bytes.
    blocked: AtomicBool,
    /// True if a request has begun since the task of the HTTP/1.1 connection was polled.
    turn_taken: AtomicBool,
    /// Streams of the client on all of its connections; `None` if they are not counted.
    client: Option<ClientStreams>,
    /// Handler that takes the connection over once its response with status 101 is written. It counts as a request in
    /// flight, so that a shutdown waits for it.
    tunnel: Mutex<Option<Tunnel>>,
    /// Notified when an HTTP/2 connection should accept no further requests.
    retired: Notify,
}

/// A request in flight; dropping it ends it.
#[derive(Debug)]
pub struct Exchange {
    traffic: Arc<Traffic>,
}

/// A response body that keeps its exchange open until it has been sent or dropped, and records its progress for the
/// stream's watch.
#[derive(Debug)]
pub struct TrackedBody<B, H = ()> {
    body: B,
    /// Remaining part of a frame of which an HTTP/2 stream has received the first part.
    rest: Option<Bytes>,
    /// Slots that the request occupies in limits; `None` if a tunnel holds them.
    _held: Option<H>,
    _exchange: Exchange,
}

/// Traffic counters at one moment.
#[derive(Clone, Copy, Debug)]
struct TrafficSample {
    open: usize,
    begun: u64,
    written: u64,
    read: u64,
}

/// Time that a client has, when the server stops, to complete a request head or to read more of a response: several
/// round trips of a slow network.
pub const GRACE: Duration = Duration::from_secs(2);

/// Increment of the upper half of `requests`.
const BEGUN: u64 = 1 << 32;

/// Minimum number of bytes that must be written between two checks, beyond as many as were read, for the connection to
/// count as in use. HTTP/2's acknowledgements of pings and settings are never longer than the frames that they
/// acknowledge, so a client cannot keep a connection open with them.
const LEAST_TAKEN: u64 = 1024;

/// Number of checks per idle timeout: an idle connection is closed at most a quarter later.
const CHECKS: u32 = 4;

impl Traffic {
    /// Returns the traffic counters of a connection of this client.
    pub(crate) fn of(client: ClientStreams) -> Self {
        Self { client: Some(client), ..Self::default() }
    }

    /// Returns the executor for the streams of this connection, which counts them for its client.
    pub(crate) fn executor(&self, streams: &StreamExecutor) -> StreamExecutor {
        streams.of(self.client.clone())
    }

    /// Counts a request as in flight until the exchange is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Exchange {
        self.requests.fetch_add(BEGUN + 1, Ordering::Relaxed);
        Exchange { traffic: Arc::clone(self) }
    }

    /// Lets an HTTP/2 connection finish its open requests and accept no others.
    pub fn retire(&self) {
        self.retired.notify_one();
    }

    /// Waits until the connection is retired.
    pub(crate) async fn retired(&self) {
        self.retired.notified().await;
    }

    /// Takes the handler that takes the connection over, and the exchange that keeps the connection open meanwhile.
    pub(crate) fn take_tunnel(self: &Arc<Self>) -> Option<(Tunnel, Exchange)> {
        let tunnel = self.tunnel.lock().take()?;
        Some((tunnel, Exchange { traffic: Arc::clone(self) }))
    }

    pub(crate) fn add_written(&self, bytes: usize) {
        let written = self.written() + bytes as u64;
        self.written.store(written, Ordering::Relaxed);
    }

    pub(crate) fn add_read(&self, bytes: usize) {
        let read = self.read.load(Ordering::Relaxed) + bytes as u64;
        self.read.store(read, Ordering::Relaxed);
    }

    pub(crate) fn set_blocked(&self) {
        self.blocked.store(true, Ordering::Relaxed);
    }

    pub(crate) fn clear_blocked(&self) {
        self.blocked.store(false, Ordering::Relaxed);
    }

    /// Returns true if the client did not accept all bytes of the last write.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Begins a poll of an HTTP/1.1 connection, in which one request may begin.
    pub(crate) fn begin_turn(&self) {
        self.turn_taken.store(false, Ordering::Relaxed);
    }

    /// Takes the turn of this poll for a request. Returns true if another request has taken it before.
    pub(crate) fn takes_turn(&self) -> bool {
        self.turn_taken.swap(true, Ordering::Relaxed)
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        (self.requests.load(Ordering::Relaxed) % BEGUN) as usize
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn sample(&self) -> TrafficSample {
        TrafficSample {
            open: self.open(),
            begun: self.requests.load(Ordering::Relaxed) / BEGUN,
            written: self.written(),
            read: self.read.load(Ordering::Relaxed),
        }
    }

    /// Returns once the connection has been idle for `limit`, or up to a quarter longer. A connection is idle if no
    /// request is in flight or begins, no part of a response is written, and no write waits for the client. Pings and
    /// settings do not count as use.
    pub async fn unused(&self, limit: Duration) {
        self.until_idle(limit / CHECKS, CHECKS, |traffic| traffic.is_blocked()).await;
    }

    /// Returns once, for [`GRACE`], no request was in flight and no part of a response was written.
    pub(crate) async fn ended(&self) {
        self.until_idle(GRACE, 1, |_| false).await;
    }

    /// Returns after `checks` consecutive checks that found no use.
    async fn until_idle(&self, pause: Duration, checks: u32, is_used: impl Fn(&Self) -> bool) {
        let (mut before, mut idle_checks) = (self.sample(), 0);
        while idle_checks < checks {
            tokio::time::sleep(pause).await;
            let now = self.sample();
            let is_used = now.is_of_use_since(before) || is_used(self);
            idle_checks = if is_used { 0 } else { idle_checks + 1 };
            before = now;
        }
    }
}

impl TrafficSample {
    fn is_of_use_since(self, before: Self) -> bool {
        let written = self.written - before.written;
        let read = self.read - before.read;
        let requests = self.open + before.open;
        requests > 0 || self.begun != before.begun || written >= read.saturating_add(LEAST_TAKEN)
    }
}

impl Exchange {
    /// Keeps the exchange open until the response's body ends. The connection leaves HTTP after a response that has a
    /// [`Tunnel`] as an extension.
    #[must_use]
    pub fn track<B>(self, response: Response<B>) -> Response<TrackedBody<B>> {
        self.track_with(response, ())
    }

    /// The same as [`Self::track`]. `held` is dropped when the body ends, or when the tunnel ends if there is one. It
    /// stands for the slots that the request occupies in limits.
    #[must_use]
    pub fn track_with<B, H: Send + 'static>(self, mut response: Response<B>, held: H) -> Response<TrackedBody<B, H>> {
        let mut held = Some(held);
        if let Some(tunnel) = response.extensions_mut().remove::<Tunnel>() {
            self.traffic.requests.fetch_add(BEGUN + 1, Ordering::Relaxed);
            *self.traffic.tunnel.lock() = Some(tunnel.holding(held.take()));
        }
        // From here on, an HTTP/2 client may stop reading the response.
        streams::record(StreamProgress::Yielded);
        response.map(|body| TrackedBody { body, rest: None, _held: held, _exchange: self })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.traffic.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B: Body<Data = Bytes> + Unpin, H> TrackedBody<B, H> {
    /// Returns the next frame. The HTTP/2 library holds each frame until the client has read all of it, so large frames
    /// are passed to it in pieces.
    fn next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = match self.rest.take() {
            Some(rest) => Frame::data(rest),
            None => match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                other => return other,
            },
        };
        let frame = match frame.into_data() {
            Ok(mut data) if data.len() > PIECE && streams::is_watched() => {
                let piece = data.split_to(PIECE);
                self.rest = Some(data);
                Frame::data(piece)
            }
            Ok(data) => Frame::data(data),
            Err(frame) => frame,
        };
        Poll::Ready(Some(Ok(frame)))
    }
}

/// Maximum bytes of a response that are passed to an HTTP/2 stream at once: four of the usual frames. A client that
/// reads less than this in the longest stall, half a minute, is slower than 2 KiB/s.
const PIECE: usize = 64 << 10;

impl<B: Body<Data = Bytes> + Unpin, H: Unpin> Body for TrackedBody<B, H> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = self.next(context);
        streams::record(match polled {
            Poll::Ready(_) => StreamProgress::Yielded,
            Poll::Pending => StreamProgress::Pending,
        });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.as_ref().map_or(0, |rest| rest.len() as u64);
        if let Some(upper) = hint.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint.set_lower(hint.lower().saturating_add(rest));
        hint
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Returns the seconds after which a connection counts as idle if `event` happens every second.
    async fn unused_after(event: impl Fn(&Arc<Traffic>)) -> u64 {
        let traffic = Arc::<Traffic>::default();
        let begin = crate::clock::now();
        let events = async {
            loop {
                event(&traffic);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        };
        tokio::select! {
            () = traffic.unused(LIMIT) => begin.elapsed().as_secs(),
            () = events => 0,
            () = tokio::time::sleep(100 * LIMIT) => u64::MAX,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_only_pings_is_idle() {
        assert_eq!(unused_after(|_| {}).await, 60);
        let ping = |traffic: &Arc<Traffic>| {
            traffic.add_read(17_000);
            traffic.add_written(17_000);
        };
        assert_eq!(unused_after(ping).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_requests_or_a_slow_reader_is_in_use() {
        assert_eq!(unused_after(|traffic| drop(traffic.begin())).await, u64::MAX);
        let taken = |traffic: &Arc<Traffic>| traffic.add_written(1_000);
        assert_eq!(unused_after(taken).await, u64::MAX);
        assert_eq!(unused_after(|traffic| traffic.set_blocked()).await, u64::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_idle_time_counts_from_the_last_request() {
        let traffic = Arc::<Traffic>::default();
        let begin = crate::clock::now();
        let request = async {
            let exchange = traffic.begin();
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(exchange);
        };
        tokio::join!(traffic.unused(LIMIT), request);
        let after = begin.elapsed().as_secs();
        assert!((160..=175).contains(&after), "{after}");
    }
}

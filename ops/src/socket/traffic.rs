//! Traffic of a connection: what tells one that is of use from one that only holds a place.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame, SizeHint};

use super::places::ClientStreams;
use super::streams::{self, StreamExecutor, StreamProgress};

/// Requests in flight and bytes read and written on one connection.
#[derive(Debug, Default)]
pub struct Traffic {
    /// In the lower half the requests whose heads have arrived and whose responses have not ended; in the upper half
    /// all that have begun.
    requests: AtomicU64,
    /// Bytes written so far. Only the connection's own task writes.
    written: AtomicU64,
    /// Bytes read so far. Only the connection's own task reads.
    read: AtomicU64,
    /// True while the client takes nothing of what is written.
    blocked: AtomicBool,
    /// The streams of the client on all of its connections; `None` where nobody counts them.
    client: Option<ClientStreams>,
}

/// A request in flight.
#[derive(Debug)]
pub struct Exchange(Arc<Traffic>);

/// A response's body that keeps its exchange open until it has been sent or dropped, and tells its stream's watch
/// how it gets on.
#[derive(Debug)]
pub struct Counted<B> {
    body: B,
    /// What is left of a frame of which an HTTP/2 stream has taken a part.
    rest: Option<Bytes>,
    _exchange: Exchange,
}

/// Traffic at one moment.
#[derive(Clone, Copy, Debug)]
struct Mark {
    open: usize,
    begun: u64,
    written: u64,
    read: u64,
}

/// Some round trips of a slow network. At the end of the server a client has this long to complete a request or to
/// take more of a response.
pub const GRACE: Duration = Duration::from_secs(2);

/// One more request that has begun.
const BEGUN: u64 = 1 << 32;

/// Bytes that a client of a response takes at least from one look to the next, beyond as many as it sends: what
/// HTTP/2 acknowledges (pings, settings) is never longer than what it answers.
const LEAST_TAKEN: u64 = 1024;

/// Looks at a connection in its longest idle time: a connection is closed at most a quarter later.
const LOOKS: u32 = 4;

impl Traffic {
    /// The traffic of a connection of this client.
    pub(super) fn of(client: ClientStreams) -> Self {
        Self { client: Some(client), ..Self::default() }
    }

    /// The executor for the streams of this connection: those of its client are counted.
    #[must_use]
    pub fn executor(&self, streams: &StreamExecutor) -> StreamExecutor {
        streams.of(self.client.clone())
    }

    /// Counts a request as in flight until the exchange is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Exchange {
        self.requests.fetch_add(BEGUN + 1, Ordering::Relaxed);
        Exchange(Arc::clone(self))
    }

    pub(super) fn add_written(&self, bytes: usize) {
        let written = self.written() + bytes as u64;
        self.written.store(written, Ordering::Relaxed);
    }

    pub(super) fn add_read(&self, bytes: usize) {
        let read = self.read.load(Ordering::Relaxed) + bytes as u64;
        self.read.store(read, Ordering::Relaxed);
    }

    pub(super) fn set_blocked(&self) {
        self.blocked.store(true, Ordering::Relaxed);
    }

    pub(super) fn clear_blocked(&self) {
        self.blocked.store(false, Ordering::Relaxed);
    }

    /// True if the client did not take all bytes of the last write.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    /// Number of requests in flight.
    #[must_use]
    pub fn open(&self) -> usize {
        (self.requests.load(Ordering::Relaxed) % BEGUN) as usize
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    fn mark(&self) -> Mark {
        Mark {
            open: self.open(),
            begun: self.requests.load(Ordering::Relaxed) / BEGUN,
            written: self.written(),
            read: self.read.load(Ordering::Relaxed),
        }
    }

    /// Returns once the connection was of no use for `limit`, or a quarter longer: no request was in flight or began,
    /// and its client took nothing of a response. Pings and settings are no use.
    pub async fn unused(&self, limit: Duration) {
        self.quiet(limit / LOOKS, LOOKS, |traffic| traffic.is_blocked()).await;
    }

    /// Returns when for [`GRACE`] no request was in flight and no client took any of a response.
    pub(super) async fn ended(&self) {
        self.quiet(GRACE, 1, |_| false).await;
    }

    /// Returns once nothing was found at so many looks in a row.
    async fn quiet(&self, pause: Duration, looks: u32, is_used: impl Fn(&Self) -> bool) {
        let (mut before, mut quiet) = (self.mark(), 0);
        while quiet < looks {
            tokio::time::sleep(pause).await;
            let now = self.mark();
            let is_used = now.is_of_use_since(before) || is_used(self);
            quiet = if is_used { 0 } else { quiet + 1 };
            before = now;
        }
    }
}

impl Mark {
    fn is_of_use_since(self, before: Self) -> bool {
        let written = self.written - before.written;
        let read = self.read - before.read;
        let requests = self.open + before.open;
        requests > 0 || self.begun != before.begun || written >= read.saturating_add(LEAST_TAKEN)
    }
}

impl Exchange {
    /// Keeps the exchange open as long as the response's body.
    #[must_use]
    pub fn track<B>(self, response: Response<B>) -> Response<Counted<B>> {
        // From here on an HTTP/2 client may leave the response lie.
        streams::record(StreamProgress::Yielded);
        response.map(|body| Counted { body, rest: None, _exchange: self })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B: Body<Data = Bytes> + Unpin> Counted<B> {
    /// The next frame. The HTTP/2 library holds a frame that it was given, however little its client takes: there,
    /// large ones are given in pieces.
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

/// The most of a response that is given to an HTTP/2 stream at once: four of the usual frames. A client that takes
/// less in the longest stall, of half a minute, is slower than 2 KiB/s.
const PIECE: usize = 64 << 10;

impl<B: Body<Data = Bytes> + Unpin> Body for Counted<B> {
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
    use tokio::time::Instant;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    /// Seconds until a connection counts as unused on which `event` happens each second.
    async fn unused_after(event: impl Fn(&Arc<Traffic>)) -> u64 {
        let traffic = Arc::<Traffic>::default();
        let begin = Instant::now();
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
    async fn silence_and_pings_are_no_use() {
        assert_eq!(unused_after(|_| {}).await, 60);
        let ping = |traffic: &Arc<Traffic>| {
            traffic.add_read(17_000);
            traffic.add_written(17_000);
        };
        assert_eq!(unused_after(ping).await, 60);
    }

    #[tokio::test(start_paused = true)]
    async fn requests_and_slow_readers_are_use() {
        assert_eq!(unused_after(|traffic| drop(traffic.begin())).await, u64::MAX);
        let taken = |traffic: &Arc<Traffic>| traffic.add_written(1_000);
        assert_eq!(unused_after(taken).await, u64::MAX);
        assert_eq!(unused_after(|traffic| traffic.set_blocked()).await, u64::MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_counts_from_the_last_request() {
        let traffic = Arc::<Traffic>::default();
        let begin = Instant::now();
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

//! Traffic of a connection, and its graceful end.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http_body::{Body, Frame, SizeHint};

/// Requests in flight and bytes written on one connection.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Requests whose heads have arrived and whose responses have not ended.
    open: AtomicUsize,
    /// Bytes written so far.
    written: AtomicU64,
    /// True while the client takes nothing of what is written.
    blocked: AtomicBool,
}

/// A request in flight.
#[derive(Debug)]
pub struct Exchange(Arc<Traffic>);

/// A response's body that keeps its exchange open until it has been sent or dropped.
#[derive(Debug)]
pub struct Counted<B> {
    body: B,
    _exchange: Exchange,
}

/// Some round trips of a slow network. At the end of the server a client has this long to complete a request or to
/// take more of a response.
pub const GRACE: Duration = Duration::from_secs(2);

impl Traffic {
    /// Counts a request as in flight until the exchange is dropped.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Exchange {
        self.open.fetch_add(1, Ordering::Relaxed);
        Exchange(Arc::clone(self))
    }

    pub(super) fn add_written(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
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
        self.open.load(Ordering::Relaxed)
    }

    /// Number of bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns when for [`GRACE`] no request was in flight and nothing was written.
    async fn idle(&self) {
        let mut before = None;
        loop {
            let written = self.written();
            if self.open() > 0 {
                before = None;
            } else if before.replace(written) == Some(written) {
                return;
            }
            tokio::time::sleep(GRACE).await;
        }
    }
}

impl Exchange {
    /// Keeps the exchange open as long as the response's body.
    #[must_use]
    pub fn track<B>(self, response: Response<B>) -> Response<Counted<B>> {
        response.map(|body| Counted {
            body,
            _exchange: self,
        })
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<B: Body + Unpin> Body for Counted<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Waits for a connection whose graceful shutdown has begun: requests in flight are answered; a client that has
/// not completed a request within seconds is not waited for. `connection` is then dropped, which closes it.
///
/// # Errors
/// The connection's own.
pub async fn close<E>(
    connection: impl Future<Output = Result<(), E>>,
    traffic: &Traffic,
) -> Result<(), E> {
    tokio::select! {
        ended = connection => ended,
        () = traffic.idle() => Ok(()),
    }
}

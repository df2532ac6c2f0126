//! What goes on on a connection, and how it is ended.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use http::Response;
use http_body::{Body, Frame, SizeHint};

/// What goes on on one connection, seen from beside it.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Requests whose heads came and whose answers have not ended.
    open: AtomicUsize,
    /// Bytes.
    written: AtomicU64,
    /// Whether bytes wait to be taken.
    stuck: AtomicBool,
}

/// A request that is being answered.
#[derive(Debug)]
pub struct Exchange(Arc<Traffic>);

/// A response's body that keeps its exchange open until it was handed over or given up.
#[derive(Debug)]
pub struct Counted<B> {
    body: B,
    _exchange: Exchange,
}

/// Some round trips of a slow network. Whoever neither has asked all of something within it, nor takes
/// what is left of an answer, does not hold up the end.
pub const GRACE: Duration = Duration::from_secs(2);

impl Traffic {
    /// A request's head is there.
    #[must_use]
    pub fn begin(self: &Arc<Self>) -> Exchange {
        self.open.fetch_add(1, Ordering::Relaxed);
        Exchange(Arc::clone(self))
    }

    pub(super) fn wrote(&self, bytes: usize) {
        self.written.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn stick(&self) {
        self.stuck.store(true, Ordering::Relaxed);
    }

    pub(super) fn loosen(&self) {
        self.stuck.store(false, Ordering::Relaxed);
    }

    /// Whether the client has not taken all that was to be written when it was last tried.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Relaxed)
    }

    /// Requests that are being answered.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Bytes written so far.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// Returns when for a while no request was open and nothing was written.
    async fn quiet(&self) {
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
    /// Stays open as long as the response's body.
    #[must_use]
    pub fn carry<B>(self, response: Response<B>) -> Response<Counted<B>> {
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

/// Waits for a connection whose graceful end was begun: who has asked is answered; who has not asked all of a
/// request within seconds is not waited for. Dropped after that, `connection` closes.
///
/// # Errors
/// The connection's own.
pub async fn close<E>(
    connection: impl Future<Output = Result<(), E>>,
    traffic: &Traffic,
) -> Result<(), E> {
    tokio::select! {
        ended = connection => ended,
        () = traffic.quiet() => Ok(()),
    }
}

//! Request bodies on their way to a replica.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use smallvec::SmallVec;

/// Buffers that were received; mostly one.
pub(crate) type Chunks = SmallVec<[Bytes; 2]>;

/// What was kept of a body, and perhaps the rest that still comes.
#[derive(Debug)]
pub(crate) struct RequestBody {
    chunks: Chunks,
    next: usize,
    trailers: Option<HeaderMap>,
    rest: Option<(Incoming, Sender)>,
}

/// Whoever sends a body, for who does not read it. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sender(Arc<Sending>);

#[derive(Debug, Default)]
struct Sending {
    is_gone: AtomicBool,
    /// What nobody reads any more. Dropped before the answer has ended, it would take the answer's stream
    /// with it (RFC 9113, 8.1).
    unread: Mutex<Option<Incoming>>,
}

impl Sender {
    /// Whether it broke off.
    pub(crate) fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        self.0.is_gone.store(true, Ordering::Relaxed);
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some((rest, sender)) = self.rest.take() {
            *sender.0.unread.lock() = Some(rest);
        }
    }
}

impl RequestBody {
    pub(crate) fn empty() -> Self {
        Self::whole(Chunks::new(), None)
    }

    /// A body that was received whole.
    pub(crate) fn whole(chunks: Chunks, trailers: Option<HeaderMap>) -> Self {
        Self {
            chunks,
            next: 0,
            trailers,
            rest: None,
        }
    }

    /// A body of which the rest still comes, from this sender.
    pub(crate) fn streaming(chunks: Chunks, rest: Incoming, sender: Sender) -> Self {
        let mut outgoing = Self::whole(chunks, None);
        outgoing.rest = Some((rest, sender));
        outgoing
    }

    /// Whether all of it is kept here, to be had again.
    pub(crate) fn is_kept(&self) -> bool {
        self.rest.is_none()
    }

    fn buffered(&self) -> u64 {
        let left = self.chunks.get(self.next..).unwrap_or_default();
        left.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if let Some(chunk) = self.chunks.get(self.next).cloned() {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match &mut self.rest {
            Some((rest, sender)) => {
                let frame = Pin::new(&mut *rest).poll_frame(context);
                let is_cut = matches!(frame, Poll::Ready(None)) && rest.size_hint().lower() > 0;
                if is_cut || matches!(frame, Poll::Ready(Some(Err(_)))) {
                    sender.leave();
                }
                frame
            }
            None => Poll::Ready(self.trailers.take().map(|t| Ok(Frame::trailers(t)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_sent = self.next >= self.chunks.len() && self.trailers.is_none();
        is_sent
            && self
                .rest
                .as_ref()
                .is_none_or(|(rest, _)| rest.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        let buffered = self.buffered();
        let rest = match &self.rest {
            Some((rest, _)) => rest.size_hint(),
            None => SizeHint::with_exact(0),
        };
        let mut hint = SizeHint::new();
        if let Some(upper) = rest.upper() {
            hint.set_upper(buffered + upper);
        }
        hint.set_lower(buffered + rest.lower());
        hint
    }
}

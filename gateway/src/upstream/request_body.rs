//! Request bodies in the form in which they are sent upstream.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_serve::{Stalled, TimedBody};

use crate::clock::now;
use crate::rates::Meter;

type BodyError = Box<dyn Error + Send + Sync>;

/// Data of a body in the chunks in which it arrived; mostly one chunk.
pub(crate) type Chunks = SmallVec<[Bytes; 2]>;

/// The buffered part of a request's body, and the stream of the part that is still arriving.
#[derive(Debug)]
pub(crate) struct RequestBody {
    chunks: Chunks,
    next: usize,
    trailers: Option<HeaderMap>,
    rest: Option<(TimedBody<Incoming>, UploadHandle)>,
}

/// State of a streamed upload, shared between its body and the request. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct UploadHandle(Arc<UploadShared>);

/// Cause for which an upload ended before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UploadFailure {
    /// The client broke off.
    BrokenOff,
    /// The body stalled or was too slow; this was the longest wait that was allowed for its next bytes.
    Stalled(Duration),
}

impl UploadFailure {
    fn of(error: &(dyn Error + 'static)) -> Self {
        error.downcast_ref().map_or(Self::BrokenOff, |&Stalled(pause)| Self::Stalled(pause))
    }
}

#[derive(Debug, Default)]
struct UploadShared {
    failure: OnceLock<UploadFailure>,
    /// Bytes that arrived from the client since the request was forwarded.
    received: AtomicU64,
    /// Meter that counts these bytes; empty if the client has no limit of them.
    meter: OnceLock<Meter>,
    /// True while the replica has taken all data that arrived, and more is to come.
    waits_for_client: AtomicBool,
    /// Complete gRPC messages that were sent upstream.
    messages: AtomicU64,
    has_ended: AtomicBool,
    /// Task that is woken when `messages` or `has_ended` changes.
    waker: Mutex<Option<Waker>>,
    /// Unread part of an upload that was given up. If it were dropped before the response has ended, the response's
    /// HTTP/2 stream would be reset (RFC 9113, 8.1).
    unread: Mutex<Option<Incoming>>,
}

impl UploadHandle {
    /// Returns the cause for which the client's upload failed; `None` if it did not.
    pub(crate) fn failure(&self) -> Option<UploadFailure> {
        self.0.failure.get().copied()
    }

    /// Returns the bytes that arrived from the client since the request was forwarded.
    pub(crate) fn received(&self) -> u64 {
        self.0.received.load(Ordering::Relaxed)
    }

    /// Charges the client for the bytes that arrive from now on.
    pub(crate) fn meter_by(&self, meter: Meter) {
        self.0.meter.get_or_init(|| meter);
    }

    /// Returns true while the replica has taken all data that arrived, and more is to come.
    pub(crate) fn waits_for_client(&self) -> bool {
        self.0.waits_for_client.load(Ordering::Relaxed)
    }

    /// True if the upload was given up before its end.
    pub(crate) fn is_unread(&self) -> bool {
        let unread = self.0.unread.lock();
        unread.as_ref().is_some_and(|rest| !rest.is_end_stream())
    }

    /// Takes the unread part of an upload that was given up because its response came first.
    pub(crate) fn take_unread(&self) -> Option<Incoming> {
        self.0.unread.lock().take()
    }

    /// Returns the number of complete gRPC messages that were sent upstream; `None` once the upload has ended.
    pub(crate) fn messages(&self) -> Option<u64> {
        let has_ended = self.0.has_ended.load(Ordering::Acquire);
        (!has_ended).then(|| self.0.messages.load(Ordering::Acquire))
    }

    /// Waits until the upload was sent completely or was given up.
    pub(crate) async fn ended(&self) {
        poll_fn(|context| {
            self.wake(context.waker());
            if self.messages().is_none() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Registers a task to be woken when the result of [`Self::messages`] changes.
    pub(crate) fn wake(&self, waker: &Waker) {
        let mut slot = self.0.waker.lock();
        match &mut *slot {
            Some(old) => old.clone_from(waker),
            None => *slot = Some(waker.clone()),
        }
    }

    fn advance(&self, messages: u64) {
        if self.0.messages.swap(messages, Ordering::AcqRel) != messages {
            self.notify();
        }
    }

    fn end(&self) {
        self.0.has_ended.store(true, Ordering::Release);
        self.notify();
    }

    fn notify(&self) {
        if let Some(waker) = self.0.waker.lock().take() {
            waker.wake();
        }
    }

    /// Records what a poll for the next frame returned.
    fn record(&self, polled: &Poll<Option<Result<Frame<Bytes>, BodyError>>>) {
        let is_waited_for = polled.is_pending();
        self.0.waits_for_client.store(is_waited_for, Ordering::Relaxed);
        match polled {
            Poll::Ready(Some(Ok(frame))) => {
                let size = frame.data_ref().map_or(0, Bytes::len);
                self.0.received.fetch_add(size as u64, Ordering::Relaxed);
                if let Some(meter) = self.0.meter.get() {
                    meter.add_bytes(size, now());
                }
            }
            Poll::Ready(Some(Err(error))) => {
                self.0.failure.get_or_init(|| UploadFailure::of(&**error));
            }
            Poll::Ready(None) => self.end(),
            Poll::Pending => {}
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some((rest, upload)) = self.rest.take() {
            upload.0.waits_for_client.store(false, Ordering::Relaxed);
            upload.end();
            *upload.0.unread.lock() = Some(rest.into_inner());
        }
    }
}

impl RequestBody {
    pub(crate) fn empty() -> Self {
        Self::whole(Chunks::new(), None)
    }

    /// Creates a body that is completely buffered.
    pub(crate) fn whole(chunks: Chunks, trailers: Option<HeaderMap>) -> Self {
        Self { chunks, next: 0, trailers, rest: None }
    }

    /// Creates a body of which a part is still arriving.
    pub(crate) fn streaming(chunks: Chunks, rest: TimedBody<Incoming>, upload: UploadHandle) -> Self {
        upload.0.messages.store(rest.messages_ended(), Ordering::Release);
        let mut body = Self::whole(chunks, None);
        body.rest = Some((rest, upload));
        body
    }

    /// Returns true if the whole body is buffered.
    pub(crate) fn is_buffered(&self) -> bool {
        self.rest.is_none()
    }

    fn buffered(&self) -> u64 {
        let left = self.chunks.get(self.next..).unwrap_or_default();
        left.iter().map(|chunk| chunk.len() as u64).sum()
    }
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(chunk) = self.chunks.get(self.next).cloned() {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(chunk))));
        }
        match &mut self.rest {
            Some((rest, upload)) => {
                let frame = Pin::new(&mut *rest).poll_frame(context);
                upload.advance(rest.messages_ended());
                upload.record(&frame);
                frame
            }
            None => Poll::Ready(self.trailers.take().map(|t| Ok(Frame::trailers(t)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_sent = self.next >= self.chunks.len() && self.trailers.is_none();
        is_sent && self.rest.as_ref().is_none_or(|(rest, _)| rest.is_end_stream())
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

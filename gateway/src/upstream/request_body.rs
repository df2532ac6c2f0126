//! Request bodies, as they are sent upstream.

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
use weir_ops::socket::TimedBody;

/// Data of a body as it arrived; mostly one buffer.
pub(crate) type Chunks = SmallVec<[Bytes; 2]>;

/// The buffered part of a request's body, and perhaps the rest that still arrives.
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

#[derive(Debug, Default)]
struct UploadShared {
    has_failed: AtomicBool,
    /// The rest of an upload that was given up. Dropping it before the response has ended would reset the
    /// response's HTTP/2 stream (RFC 9113, 8.1).
    unread: Mutex<Option<Incoming>>,
}

impl UploadHandle {
    /// Whether the client broke off its upload.
    pub(crate) fn has_failed(&self) -> bool {
        self.0.has_failed.load(Ordering::Relaxed)
    }

    /// Takes the rest of an upload that was given up, because its response came before its end.
    pub(crate) fn take_unread(&self) -> Option<Incoming> {
        self.0.unread.lock().take()
    }

    fn fail(&self) {
        self.0.has_failed.store(true, Ordering::Relaxed);
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        if let Some((rest, upload)) = self.rest.take() {
            *upload.0.unread.lock() = Some(rest.into_inner());
        }
    }
}

impl RequestBody {
    pub(crate) fn empty() -> Self {
        Self::whole(Chunks::new(), None)
    }

    /// A body that is buffered whole.
    pub(crate) fn whole(chunks: Chunks, trailers: Option<HeaderMap>) -> Self {
        Self {
            chunks,
            next: 0,
            trailers,
            rest: None,
        }
    }

    /// A body whose rest still arrives.
    pub(crate) fn streaming(
        chunks: Chunks,
        rest: TimedBody<Incoming>,
        upload: UploadHandle,
    ) -> Self {
        let mut body = Self::whole(chunks, None);
        body.rest = Some((rest, upload));
        body
    }

    /// Whether the whole body is buffered.
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
    type Error = Box<dyn std::error::Error + Send + Sync>;

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
                let is_cut = matches!(frame, Poll::Ready(None)) && rest.size_hint().lower() > 0;
                if is_cut || matches!(frame, Poll::Ready(Some(Err(_)))) {
                    upload.fail();
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

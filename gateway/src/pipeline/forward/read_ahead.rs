//! Reads a short response before the client does, so that a slow client occupies some memory but not a replica's
//! credit.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;

use bytes::Bytes;
use http::Response;
use http_body::{Body, Frame};
use weir_serve::byte_budget::BudgetPermit;

use crate::body::{BufferMode, DownstreamBody};
use crate::wire::protocol::Protocol;

/// Size in bytes up to which a response is short: the size of one piece that is written to a client.
const SHORT: usize = 64 << 10;

/// Part of a response that is read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// The whole response, whose end is known to come soon.
    Whole,
    /// The part that has already arrived, because the response may be a stream.
    Arrived,
}

/// Reads up to [`SHORT`] bytes of a response, as far as the permit can grow that `new_permit` returns. A body that arrives
/// at once needs none.
pub(crate) async fn read_ahead(
    response: Response<DownstreamBody>,
    protocol: Protocol,
    mode: BufferMode,
    new_permit: impl Fn() -> BudgetPermit,
) -> Response<DownstreamBody> {
    let Some(extent) = extent(&response, protocol, mode) else {
        return response;
    };
    let left = response.body().size_hint().exact();
    let (parts, mut body) = response.into_parts();
    let (mut frames, mut size, mut permit) = (VecDeque::with_capacity(2), 0, None);
    let rest = loop {
        let frame = match next(&mut body, extent).await {
            Poll::Ready(Some(frame)) => frame,
            Poll::Ready(None) => break None,
            Poll::Pending => break Some(Box::new(body)),
        };
        let length = frame.as_ref().ok().and_then(Frame::data_ref).map_or(0, Bytes::len);
        size += length;
        let is_broken = frame.is_err();
        frames.push_back(frame);
        if is_broken || body.is_end_stream() {
            break None;
        }
        if size > SHORT || permit.get_or_insert_with(&new_permit).grow(length).is_err() {
            break Some(Box::new(body));
        }
    };
    let body = DownstreamBody::Ahead { frames, rest, left, _permit: permit };
    Response::from_parts(parts, body)
}

/// Returns the next frame; `Poll::Pending` only for [`Extent::Arrived`], which does not wait for frames.
async fn next(body: &mut DownstreamBody, extent: Extent) -> Poll<Option<io::Result<Frame<Bytes>>>> {
    poll_fn(|context| match (Pin::new(&mut *body).poll_frame(context), extent) {
        (Poll::Ready(frame), _) => Poll::Ready(Poll::Ready(frame)),
        (Poll::Pending, Extent::Whole) => Poll::Pending,
        (Poll::Pending, Extent::Arrived) => Poll::Ready(Poll::Pending),
    })
    .await
}

/// Returns the part of a response to read ahead; `None` for a long response, or one that is already complete.
fn extent(response: &Response<DownstreamBody>, protocol: Protocol, mode: BufferMode) -> Option<Extent> {
    let body = response.body();
    if body.is_end_stream() {
        return None;
    }
    match (protocol, mode, body.size_hint().exact()) {
        (Protocol::Http, _, Some(size)) => (size <= SHORT as u64).then_some(Extent::Whole),
        // A unary call has one message, so its response ends soon.
        (Protocol::Grpc, BufferMode::Whole, _) => Some(Extent::Whole),
        (Protocol::Http, _, None) | (Protocol::Grpc, BufferMode::FirstMessage | BufferMode::Stream, _) => {
            Some(Extent::Arrived)
        }
    }
}

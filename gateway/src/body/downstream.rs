//! Response bodies: the gateway's own, or relayed from a replica.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use weir_serve::byte_budget::BudgetPermit;

use super::metered::MeteredBody;
use crate::rates::Meter;

/// A response body to a client.
pub(crate) enum DownstreamBody {
    /// Made by the gateway, or the rows of one entry in a batch's response.
    Local { data: VecDeque<Bytes>, trailers: Option<HeaderMap> },
    /// Relayed from a replica or another gateway, with its beginning or the whole body already read.
    Ahead {
        frames: VecDeque<io::Result<Frame<Bytes>>>,
        /// Unread part of the body; `None` if the whole body was read.
        rest: Option<Box<Self>>,
        /// Number of bytes still to come according to the response's `content-length`; `None` without that header. A
        /// body that breaks off early must not look complete.
        left: Option<u64>,
        /// Charges the byte budget for the bytes of `frames`; `None` if these were all of the body.
        _permit: Option<BudgetPermit>,
    },
    /// Relayed from a replica or another gateway.
    Relayed(UnsyncBoxBody<Bytes, io::Error>),
    /// The response to a client whose bytes or tokens are limited.
    Metered(Box<MeteredBody<Self>>),
}

impl DownstreamBody {
    pub(crate) fn local(data: Bytes) -> Self {
        Self::Local { data: Some(data).filter(|data| !data.is_empty()).into_iter().collect(), trailers: None }
    }

    pub(crate) fn with_trailers(data: Bytes, trailers: HeaderMap) -> Self {
        Self::Local { data: [data].into(), trailers: Some(trailers) }
    }

    /// Returns the body of a response with these headers that this meter counts.
    pub(crate) fn metered(self, meter: Meter, headers: &HeaderMap) -> Self {
        Self::Metered(Box::new(MeteredBody::new(self, meter, headers)))
    }
}

impl Default for DownstreamBody {
    fn default() -> Self {
        Self::local(Bytes::new())
    }
}

impl Body for DownstreamBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match self.get_mut() {
            Self::Local { data, trailers } => {
                let frame = data.pop_front().map(Frame::data).or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            Self::Ahead { frames, rest, left, .. } => {
                let frame = match (frames.pop_front(), rest) {
                    (Some(frame), _) => Some(frame),
                    (None, Some(rest)) => ready!(Pin::new(rest).poll_frame(context)),
                    (None, None) => None,
                };
                let given = frame.as_ref().map_or(0, length);
                *left = left.map(|left| left.saturating_sub(given));
                Poll::Ready(frame)
            }
            Self::Relayed(body) => Pin::new(body).poll_frame(context),
            Self::Metered(body) => body.poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Local { data, trailers } => data.is_empty() && trailers.is_none(),
            Self::Ahead { frames, rest, .. } => {
                frames.is_empty() && rest.as_ref().is_none_or(|rest| rest.is_end_stream())
            }
            Self::Relayed(body) => body.is_end_stream(),
            Self::Metered(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Local { data, .. } => SizeHint::with_exact(data.iter().map(|piece| piece.len() as u64).sum()),
            Self::Ahead { left: Some(left), .. } => SizeHint::with_exact(*left),
            Self::Ahead { frames, rest, .. } => {
                // A body of known length has no trailers, so its length is exact only if all its frames are data.
                let is_data = |frame: &io::Result<Frame<Bytes>>| frame.as_ref().is_ok_and(Frame::is_data);
                if rest.is_none() && frames.iter().all(is_data) {
                    SizeHint::with_exact(frames.iter().map(length).sum())
                } else {
                    SizeHint::default()
                }
            }
            Self::Relayed(body) => body.size_hint(),
            Self::Metered(body) => body.size_hint(),
        }
    }
}

fn length(frame: &io::Result<Frame<Bytes>>) -> u64 {
    let data = frame.as_ref().ok().and_then(Frame::data_ref);
    data.map_or(0, |data| data.len() as u64)
}

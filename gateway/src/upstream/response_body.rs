//! The body of an upstream's response, as a stream of frames.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::http1::Http1ResponseBody;
use super::http2::Http2ResponseBody;
use super::upgrade::SwitchedConnection;

/// A response body over HTTP/1.1 or HTTP/2.
pub(crate) enum ResponseBody {
    Http1(Http1ResponseBody),
    Http2(Http2ResponseBody),
}

impl ResponseBody {
    /// Polls for the next frame. An error is a clause that describes how the body broke off.
    pub(crate) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        match self {
            Self::Http1(body) => body.poll_frame(context),
            Self::Http2(body) => body.poll_frame(context),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Http1(body) => body.is_end_stream(),
            Self::Http2(body) => body.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Http1(body) => body.size_hint(),
            Self::Http2(_) => SizeHint::default(),
        }
    }

    /// Returns the connection of a response with status 101; `None` over HTTP/2, which has no upgrades.
    pub(crate) fn into_switched(self) -> Option<SwitchedConnection> {
        match self {
            Self::Http1(body) => Some(body.into_switched()),
            Self::Http2(_) => None,
        }
    }

    /// Reads and drops the rest of the body, so that the connection can be used again.
    pub(crate) async fn discard(mut self, now: Instant) {
        while let Some(Ok(_)) = poll_fn(|context| self.poll_frame(context)).await {}
        self.finish(now);
    }

    /// Returns the connection to its pool after the body was read to its end.
    pub(crate) fn finish(self, now: Instant) {
        match self {
            Self::Http1(body) => body.finish(now),
            Self::Http2(_) => {}
        }
    }
}

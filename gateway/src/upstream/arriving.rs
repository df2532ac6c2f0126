//! The body of a replica's response, as it comes.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::http1;

/// A body of either wire.
pub(crate) enum Arriving {
    Plain(http1::Arriving),
    Streamed(Incoming),
}

impl Arriving {
    /// The next piece; a clause if it broke off.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        match self {
            Self::Plain(body) => body.poll_frame(context),
            Self::Streamed(body) => Pin::new(body)
                .poll_frame(context)
                .map_err(|error| error.to_string()),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Streamed(body) => body.size_hint(),
        }
    }

    /// It was read to its end.
    pub(crate) fn finish(self, now: Instant) {
        match self {
            Self::Plain(body) => body.finish(now),
            Self::Streamed(_) => {}
        }
    }
}

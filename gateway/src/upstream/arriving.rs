//! The body of a replica's response, as it comes.

use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::{http1, http2};

/// A body of either wire.
pub(crate) enum Arriving {
    Plain(http1::Arriving),
    Called(http2::Arriving),
}

impl Arriving {
    /// The next piece; a clause if it broke off.
    pub(crate) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        match self {
            Self::Plain(body) => body.poll_frame(context),
            Self::Called(body) => body.poll_frame(context),
        }
    }

    pub(crate) fn is_end_stream(&self) -> bool {
        match self {
            Self::Plain(body) => body.is_end_stream(),
            Self::Called(body) => body.is_end_stream(),
        }
    }

    pub(crate) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Plain(body) => body.size_hint(),
            Self::Called(_) => SizeHint::default(),
        }
    }

    /// It was read to its end.
    pub(crate) fn finish(self, now: Instant) {
        match self {
            Self::Plain(body) => body.finish(now),
            Self::Called(_) => {}
        }
    }
}

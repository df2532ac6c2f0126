//! Response bodies: ours, or a replica's on its way through.

mod relay;

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};

use crate::listen;
pub(crate) use relay::{End, Relay, learn};

/// A response body.
pub(crate) enum Answer {
    /// Made here.
    Ours {
        data: Option<Bytes>,
        trailers: Option<HeaderMap>,
    },
    /// Made here of pieces of somebody else's.
    Pieces {
        data: VecDeque<Bytes>,
        trailers: Option<HeaderMap>,
    },
    /// A replica's.
    Relayed(Box<Relay>),
}

impl Answer {
    pub(crate) fn ours(data: Bytes) -> Self {
        Self::Ours {
            data: (!data.is_empty()).then_some(data),
            trailers: None,
        }
    }

    pub(crate) fn with_trailers(data: Bytes, trailers: HeaderMap) -> Self {
        Self::Ours {
            data: Some(data),
            trailers: Some(trailers),
        }
    }
}

impl Default for Answer {
    fn default() -> Self {
        Self::ours(Bytes::new())
    }
}

impl Body for Answer {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let asked = match self.get_mut() {
            Self::Ours { data, trailers } => {
                let frame = data.take().map(Frame::data);
                let frame = frame.or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            Self::Pieces { data, trailers } => {
                let frame = data.pop_front().map(Frame::data);
                let frame = frame.or_else(|| trailers.take().map(Frame::trailers));
                Poll::Ready(frame.map(Ok))
            }
            Self::Relayed(relay) => relay.poll_frame(context),
        };
        listen::note(&asked);
        asked
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Ours { data, trailers } => data.is_none() && trailers.is_none(),
            Self::Pieces { data, trailers } => data.is_empty() && trailers.is_none(),
            Self::Relayed(relay) => relay.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Ours { data, .. } => {
                SizeHint::with_exact(data.as_ref().map_or(0, |data| data.len() as u64))
            }
            Self::Pieces { data, .. } => {
                SizeHint::with_exact(data.iter().map(|piece| piece.len() as u64).sum())
            }
            Self::Relayed(relay) => relay.size_hint(),
        }
    }
}

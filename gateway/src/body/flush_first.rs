//! Makes hyper write the received part of a response before it reports that the response broke off.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::DownstreamBody;

/// A response body that returns an error one poll later. hyper drops unwritten data when a body fails, but writes it
/// when a body is pending.
pub(crate) struct FlushFirst {
    body: DownstreamBody,
    error: Option<io::Error>,
}

impl FlushFirst {
    pub(crate) fn new(body: DownstreamBody) -> Self {
        Self { body, error: None }
    }
}

impl Body for FlushFirst {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if let Some(error) = self.error.take() {
            return Poll::Ready(Some(Err(error)));
        }
        match ready!(Pin::new(&mut self.body).poll_frame(context)) {
            Some(Err(error)) => {
                self.error = Some(error);
                context.waker().wake_by_ref();
                Poll::Pending
            }
            frame => Poll::Ready(frame),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

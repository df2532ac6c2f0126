//! A response body whose bytes and tokens a client is charged for.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http_body::{Body, Frame, SizeHint};

use super::usage::UsageScan;
use crate::clock::now;
use crate::rates::Meter;

/// A response body that counts what passes.
pub(crate) struct MeteredBody<B> {
    body: B,
    meter: Meter,
    /// Scan for the number of tokens; `None` if tokens are not limited, or once they are charged.
    usage: Option<UsageScan>,
}

impl<B: Body<Data = Bytes, Error = io::Error> + Unpin> MeteredBody<B> {
    /// Returns the body of a response with these headers.
    pub(super) fn new(body: B, meter: Meter, headers: &HeaderMap) -> Self {
        let is_plain = headers.get(CONTENT_ENCODING).is_none_or(|coding| coding == "identity");
        let kind = headers.get(CONTENT_TYPE).filter(|_| is_plain && meter.counts_tokens());
        let usage = kind.and_then(|kind| UsageScan::of(kind.as_bytes()));
        Self { body, meter, usage }
    }

    pub(super) fn poll_frame(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(data) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            self.meter.add_bytes(data.len(), now());
            if let Some(usage) = &mut self.usage {
                usage.push(data);
            }
        }
        if frame.is_none() || self.is_end_stream() {
            self.end();
        }
        Poll::Ready(frame)
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> MeteredBody<B> {
    /// Charges the client before the end of the response reaches it, so that its next request finds the new state.
    fn end(&mut self) {
        self.meter.charge_bytes(now());
        if let Some(usage) = self.usage.take() {
            self.meter.add_tokens(usage.tokens(), now());
        }
    }
}

impl<B> Drop for MeteredBody<B> {
    fn drop(&mut self) {
        self.end();
    }
}

//! One connection to a replica, driven by whoever uses it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Bytes, BytesMut};
use http::{Method, Response};
use http_body::{Frame, SizeHint};
use tokio_util::io::poll_read_buf;
use weir_cluster::Address;

use super::framing::{Decoded, Framing};
use super::head::{Reuse, read_head};
use super::output::Output;
use crate::upstream::UpstreamRequest;
use crate::upstream::dial::{Stream, dial};
use crate::upstream::{UpstreamError, UpstreamErrorKind};

/// Room for the next read at least: a head with a small answer comes in one.
const ROOM: usize = 8 << 10;

/// Room for the next read at most, of a body whose length is known: a few reads for a large tensor, and no
/// more than a replica can claim without sending it.
const MOST_ROOM: u64 = 256 << 10;

/// A connection that carries at most one request.
pub(super) struct Connection {
    stream: Stream,
    output: Output,
    method: Method,
    /// What was read and belongs to nobody yet.
    input: BytesMut,
    framing: Framing,
    reuse: Reuse,
}

impl Connection {
    pub(super) async fn open(address: &Address) -> Result<Box<Self>, UpstreamError> {
        let stream = dial(address).await?;
        Ok(Box::new(Self {
            stream,
            output: Output::default(),
            method: Method::GET,
            input: BytesMut::new(),
            framing: Framing::Ended,
            reuse: Reuse::Yes,
        }))
    }

    /// Takes the next request.
    pub(super) fn start(&mut self, request: UpstreamRequest<'_>) {
        self.method = request.method.clone();
        self.output.start(request);
    }

    /// Writes the request, and reads the head of its answer. An answer may come before all is written; then
    /// the rest is written while its body is read.
    pub(super) fn poll_head(
        &mut self,
        failure: UpstreamErrorKind,
        context: &mut Context<'_>,
    ) -> Poll<Result<Response<()>, UpstreamError>> {
        let failed = |because: String| UpstreamError {
            kind: failure,
            because,
        };
        let unwritten = match self.output.poll(&mut self.stream, context) {
            Poll::Ready(Err(error)) => Some(error),
            Poll::Ready(Ok(())) | Poll::Pending => None,
        };
        loop {
            match read_head(&mut self.input, &self.method)
                .map_err(UpstreamError::invalid_response)?
            {
                Some(head) => {
                    (self.framing, self.reuse) = (head.framing, head.reuse);
                    if unwritten.is_some() {
                        self.reuse = Reuse::No;
                    }
                    return Poll::Ready(Ok(head.response));
                }
                None => match (self.poll_input(context), &unwritten) {
                    (Poll::Ready(Ok(0)), None) => {
                        return Poll::Ready(Err(failed("it closed the connection".to_owned())));
                    }
                    (Poll::Ready(Ok(0)) | Poll::Pending, Some(error)) => {
                        return Poll::Ready(Err(failed(format!("sending failed: {error}"))));
                    }
                    (Poll::Ready(Ok(_)), _) => {}
                    (Poll::Ready(Err(error)), _) => {
                        return Poll::Ready(Err(failed(format!("reading failed: {error}"))));
                    }
                    (Poll::Pending, None) => return Poll::Pending,
                },
            }
        }
    }

    /// The next piece of the answer's body.
    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, String>>> {
        if let Poll::Ready(Err(_)) = self.output.poll(&mut self.stream, context) {
            // It answers without having read all: the answer counts.
            self.reuse = Reuse::No;
        }
        loop {
            match self.framing.decode(&mut self.input) {
                Ok(Decoded::Data(data)) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Ok(Decoded::Trailers(trailers)) => {
                    return Poll::Ready(Some(Ok(Frame::trailers(trailers))));
                }
                Ok(Decoded::End) => return Poll::Ready(None),
                Ok(Decoded::More) => {}
                Err(because) => return Poll::Ready(Some(Err(self.broken(because)))),
            }
            match ready!(self.poll_input(context)) {
                Ok(0) => {
                    if let Err(because) = self.framing.close() {
                        return Poll::Ready(Some(Err(self.broken(because))));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let because = format!("reading failed: {error}");
                    return Poll::Ready(Some(Err(self.broken(because))));
                }
            }
        }
    }

    /// Whether nothing more of the answer's body will come.
    pub(super) fn is_end_stream(&self) -> bool {
        self.framing.is_ended()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.framing {
            Framing::Length(left) => SizeHint::with_exact(left),
            Framing::Ended => SizeHint::with_exact(0),
            Framing::Chunked(_) | Framing::UntilClose => SizeHint::default(),
        }
    }

    /// Whether it can carry another request, as far as is known without asking the peer.
    pub(super) fn is_reusable(&mut self) -> bool {
        if self.reuse == Reuse::No || !self.output.is_done() || !self.framing.is_ended() {
            return false;
        }
        // Whatever comes unasked, or the end, makes it useless.
        let mut context = Context::from_waker(Waker::noop());
        self.input.is_empty() && self.poll_input(&mut context).is_pending()
    }

    fn poll_input(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let room = self.framing.expected().min(MOST_ROOM) as usize;
        if self.input.capacity() - self.input.len() < room.clamp(1, ROOM) {
            self.input.reserve(room.max(ROOM));
        }
        poll_read_buf(Pin::new(&mut self.stream), context, &mut self.input)
    }

    fn broken(&mut self, because: String) -> String {
        self.reuse = Reuse::No;
        self.framing = Framing::Ended;
        because
    }
}

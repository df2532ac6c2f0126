//! A replica's answer on its way to the client, piece by piece; its credit is given back at its end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Sleep;
use weir_protocol::Code;

use crate::body::DownstreamBody;
use crate::clock::now;
use crate::codec::grpc;
use crate::forward::ProxyRequest;
use crate::headers;
use crate::protocol::Protocol;
use crate::queue::dispatcher::Outcome;
use crate::queue::{Credit, Verdict};
use crate::upstream::ResponseBody;
use crate::upstream::UploadHandle;

/// A body that passes through.
pub(crate) struct Relay {
    /// Gone once it was read to its end, or given up.
    body: Option<ResponseBody>,
    protocol: Protocol,
    deadline: Option<Pin<Box<Sleep>>>,
    end: Option<End>,
    /// Keeps a streamed request body alive until the response ends.
    _upload: Option<UploadHandle>,
}

/// What is to be done at the end.
pub(crate) enum End {
    /// A replica answers.
    Replica { credit: Credit, verdict: Verdict },
    /// Another gateway answers, and counts.
    Gateway,
}

impl Relay {
    pub(crate) fn new(
        body: ResponseBody,
        request: &ProxyRequest,
        upload: Option<UploadHandle>,
        end: End,
    ) -> Self {
        let sleep = |at: Instant| Box::pin(tokio::time::sleep_until(at.into()));
        let mut relay = Self {
            body: Some(body),
            protocol: request.protocol,
            deadline: request.deadline.map(sleep),
            end: Some(end),
            _upload: upload,
        };
        if relay.is_read() {
            relay.finish();
        }
        relay
    }

    /// Boxes it as a response body to a client.
    pub(crate) fn into_body(self) -> DownstreamBody {
        DownstreamBody::Relayed(UnsyncBoxBody::new(self))
    }

    fn is_read(&self) -> bool {
        self.body.as_ref().is_none_or(ResponseBody::is_end_stream)
    }

    fn poll_deadline(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(deadline) = &mut self.deadline else {
            return Poll::Pending;
        };
        if deadline.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let sentence = "deadline exceeded while the replica answered";
        Poll::Ready(Some(self.break_off(
            Outcome::Abandoned,
            Code::DeadlineExceeded,
            sentence,
        )))
    }

    fn pass(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        let frame = match frame.into_trailers() {
            Ok(mut trailers) => {
                self.read_trailers(&mut trailers);
                Frame::trailers(trailers)
            }
            Err(frame) => frame,
        };
        if frame.is_trailers() || self.is_read() {
            self.finish();
        }
        frame
    }

    fn read_trailers(&mut self, trailers: &mut HeaderMap) {
        let Some(End::Replica { credit, verdict }) = &mut self.end else {
            return;
        };
        if let Some(status) = grpc::status(trailers) {
            *verdict = grpc::verdict(status);
        }
        if trailers.remove(headers::REFUSED).is_some() {
            *verdict = Verdict::Refused;
        }
        if self.protocol == Protocol::Grpc {
            learn(credit, trailers);
            headers::add_timing(trailers, credit.queued);
        }
    }

    fn finish(&mut self) {
        let at = now();
        match self.end.take() {
            Some(End::Replica { credit, verdict }) => match verdict {
                Verdict::Succeeded | Verdict::Failed => credit.answered(verdict, at),
                Verdict::Refused => credit.refused(),
                // gRPC without a status is no answer.
                Verdict::Open => credit.answered(Verdict::Failed, at),
            },
            Some(End::Gateway) | None => {}
        }
        if let Some(body) = self.body.take() {
            body.finish(at);
        }
    }

    /// Over HTTP the client sees its connection break; gRPC can say why.
    fn break_off(
        &mut self,
        outcome: Outcome,
        code: Code,
        sentence: &str,
    ) -> io::Result<Frame<Bytes>> {
        if let Some(End::Replica { credit, .. }) = self.end.take() {
            credit.settle(outcome, Verdict::Failed);
        }
        self.body = None;
        match self.protocol {
            Protocol::Http => Err(io::Error::other(sentence.to_owned())),
            Protocol::Grpc => Ok(Frame::trailers(grpc::trailers(code, sentence))),
        }
    }
}

impl Body for Relay {
    type Data = Bytes;
    type Error = io::Error;

    fn is_end_stream(&self) -> bool {
        self.end.is_none() || self.is_read()
    }

    fn size_hint(&self) -> SizeHint {
        let body = self.body.as_ref();
        body.map_or(SizeHint::with_exact(0), ResponseBody::size_hint)
    }

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        match body.poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(self.pass(frame)))),
            Poll::Ready(Some(Err(error))) => {
                let sentence = format!("the replica broke off its answer: {error}");
                Poll::Ready(Some(self.break_off(
                    Outcome::Failed,
                    Code::Unavailable,
                    &sentence,
                )))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => self.poll_deadline(context),
        }
    }
}

/// Takes a replica's word for what it can do and how it batches.
pub(crate) fn learn(credit: &Credit, headers: &HeaderMap) {
    if let Some(capacity) = headers::number(headers, &headers::CAPACITY) {
        credit.queue().report_capacity(&credit.upstream, capacity);
    }
    // Each request of a batch says so: one in as many counts.
    if let Some((size, took)) = headers::batch(headers)
        && fastrand::u32(..size) == 0
    {
        credit.record_batch(size, took);
    }
}

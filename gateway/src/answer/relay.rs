//! A replica's answer on its way to the client, piece by piece; its credit is given back at its end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::time::Sleep;
use weir_protocol::Code;

use crate::clock::now;
use crate::codec::grpc;
use crate::desk::Outcome;
use crate::headers;
use crate::line::{Credit, Verdict};
use crate::upstream::http1::Carrier;
use crate::wire::Wire;

/// A body that passes through.
pub(crate) struct Relay {
    body: Incoming,
    /// What drives an HTTP/1.1 connection.
    carrier: Option<Carrier>,
    wire: Wire,
    deadline: Option<Pin<Box<Sleep>>>,
    end: Option<End>,
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
        body: Incoming,
        carrier: Option<Carrier>,
        wire: Wire,
        deadline: Option<Instant>,
        end: End,
    ) -> Self {
        let sleep = |at: Instant| Box::pin(tokio::time::sleep_until(at.into()));
        let mut relay = Self {
            body,
            carrier,
            wire,
            deadline: deadline.map(sleep),
            end: Some(end),
        };
        if relay.body.is_end_stream() {
            relay.finish();
        }
        relay
    }

    pub(super) fn is_end_stream(&self) -> bool {
        self.end.is_none() || self.body.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }

    pub(super) fn poll_frame(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.end.is_none() {
            return Poll::Ready(None);
        }
        if let Some(carrier) = &mut self.carrier {
            carrier.drive(context);
        }
        match Pin::new(&mut self.body).poll_frame(context) {
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
        if frame.is_trailers() || self.body.is_end_stream() {
            self.finish();
        }
        frame
    }

    fn read_trailers(&mut self, trailers: &mut HeaderMap) {
        let Some(End::Replica { credit, verdict }) = &mut self.end else {
            return;
        };
        trailers.remove(headers::REFUSED);
        if let Some(status) = grpc::status(trailers) {
            *verdict = grpc::verdict(status);
        }
        if self.wire == Wire::Grpc {
            learn(credit, trailers);
            headers::add_timing(trailers, credit.queued);
        }
    }

    fn finish(&mut self) {
        match self.end.take() {
            Some(End::Replica { credit, verdict }) => {
                // gRPC without a status is no answer.
                let verdict = match verdict {
                    Verdict::Open => Verdict::Failed,
                    Verdict::Succeeded | Verdict::Failed => verdict,
                };
                credit.answered(verdict);
            }
            Some(End::Gateway) | None => {}
        }
        if let Some(carrier) = self.carrier.take() {
            carrier.finish(now());
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
        self.carrier = None;
        match self.wire {
            Wire::Http => Err(io::Error::other(sentence.to_owned())),
            Wire::Grpc => Ok(Frame::trailers(grpc::trailers(code, sentence))),
        }
    }
}

/// Takes a replica's word for what it can do and how it batches.
pub(crate) fn learn(credit: &Credit, headers: &HeaderMap) {
    if let Some(capacity) = headers::number(headers, &headers::CAPACITY) {
        credit.line().report_capacity(&credit.upstream, capacity);
    }
    // Each request of a batch says so: one in as many counts.
    if let Some((size, took)) = headers::batch(headers)
        && fastrand::u32(..size) == 0
    {
        credit.record_batch(size, took);
    }
}

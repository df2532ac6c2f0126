//! Relays a replica's response to the client frame by frame, and gives the credit back at its end.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use tokio::time::Sleep;
use tokio_util::sync::CancellationToken;
use weir_protocol::Code;
use weir_serve::linger;

use super::request::ProxyRequest;
use super::resting::{AnswerCount, Resting};
use crate::body::DownstreamBody;
use crate::clock::now;
use crate::codec::{self, grpc};
use crate::queue::{Credit, Outcome, StreamClock, Verdict};
use crate::upstream::{ResponseBody, UploadHandle, Upstream};
use crate::wire::headers;
use crate::wire::protocol::Protocol;

/// The body of a relayed response.
pub(crate) struct Relay {
    /// Body of the upstream response; `None` once it was read to its end or given up.
    body: Option<ResponseBody>,
    protocol: Protocol,
    deadline: Option<Pin<Box<Sleep>>>,
    end: Option<RelayEnd>,
    /// Keeps a streamed request body alive until the response ends.
    upload: Option<UploadHandle>,
    /// State of a gRPC stream whose client may send more messages; `None` for other responses.
    resting: Option<Resting>,
    /// Clock of a response of unknown length over HTTP; `None` for other responses.
    clock: Option<StreamClock>,
    /// First byte of a stream, which shows how long the request waited inside the replica.
    first_byte: FirstByte,
    /// Verdict under which the request is counted if its deadline passes.
    missed: Verdict,
}

/// State of the measurement of the time to the first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FirstByte {
    /// The first byte will be recorded.
    Awaited,
    /// The first byte was recorded, or says nothing about waiting.
    Ignored,
}

/// State that is settled when a response ends.
pub(crate) enum RelayEnd {
    /// Credit of the replica, and the verdict so far.
    Replica { credit: Credit, verdict: Verdict },
    /// No credit and no verdict: the other gateway counts the request.
    Gateway,
}

/// Error of a response body that the replica broke off.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}")]
pub(crate) struct BrokenResponse {
    pub(super) replica: Arc<Upstream>,
    sentence: String,
}

impl Relay {
    pub(crate) fn new(body: ResponseBody, request: &ProxyRequest, upload: Option<UploadHandle>, end: RelayEnd) -> Self {
        let sleep = |at: Instant| Box::pin(tokio::time::sleep_until(at.into()));
        let mut relay = Self {
            body: Some(body),
            protocol: request.protocol,
            deadline: request.deadline.map(sleep),
            end: Some(end),
            upload,
            resting: None,
            clock: None,
            first_byte: FirstByte::Ignored,
            missed: request.missed,
        };
        if relay.is_read() {
            relay.finish();
        } else if relay.size_hint().exact().is_none()
            && let Some(RelayEnd::Replica { credit, .. }) = &mut relay.end
        {
            credit.become_stream();
            relay.clock = (relay.protocol == Protocol::Http).then(StreamClock::new);
        }
        relay
    }

    /// Frees the credit while the stream rests. During shutdown, a stream without an outstanding answer ends.
    pub(super) fn may_rest(mut self, answers: AnswerCount, shutdown: &CancellationToken) -> Self {
        let upload = self.upload.clone();
        self.resting = upload.map(|upload| Resting::new(upload, answers, shutdown));
        self
    }

    /// Measures the time to the first byte, because the response is a stream of the engine's results.
    pub(super) fn measure_first_byte(mut self) -> Self {
        self.first_byte = FirstByte::Awaited;
        self
    }

    /// Boxes the relay as a response body to a client.
    pub(crate) fn into_body(self) -> DownstreamBody {
        DownstreamBody::Relayed(UnsyncBoxBody::new(self))
    }

    fn replica(&self) -> Option<Arc<Upstream>> {
        match &self.end {
            Some(RelayEnd::Replica { credit, .. }) => Some(Arc::clone(&credit.upstream)),
            Some(RelayEnd::Gateway) | None => None,
        }
    }

    fn is_read(&self) -> bool {
        self.body.as_ref().is_none_or(ResponseBody::is_end_stream)
    }

    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(deadline) = &mut self.deadline else {
            return Poll::Pending;
        };
        if deadline.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        let sentence = "deadline exceeded while the replica sent its response";
        // If every message has been answered, reaching the deadline is not a failure.
        let is_answered = self.resting.as_ref().is_some_and(Resting::is_answered);
        let missed = if is_answered { Verdict::Uncounted } else { self.missed };
        let end = (Outcome::Abandoned, missed);
        Poll::Ready(Some(self.break_off(end, Code::DeadlineExceeded, sentence)))
    }

    fn poll_rest(&mut self, context: &mut Context<'_>) {
        if let (Some(resting), Some(RelayEnd::Replica { credit, .. })) = (&mut self.resting, &mut self.end) {
            resting.poll(credit, context);
        }
    }

    /// During shutdown, ends a stream that waits for its client: every message has been answered.
    fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(resting) = &mut self.resting else {
            return Poll::Pending;
        };
        ready!(resting.poll_over(context));
        let end = (Outcome::Abandoned, Verdict::Uncounted);
        let sentence = "the gateway is shutting down";
        Poll::Ready(Some(self.break_off(end, Code::Unavailable, sentence)))
    }

    fn pass(&mut self, frame: Frame<Bytes>) -> Frame<Bytes> {
        if let (Some(resting), Some(data)) = (&mut self.resting, frame.data_ref()) {
            resting.answer(data);
        }
        if let (Some(clock), Some(RelayEnd::Replica { credit, .. })) = (&mut self.clock, &self.end)
            && frame.is_data()
        {
            clock.record(credit, now());
        }
        if self.first_byte == FirstByte::Awaited
            && frame.is_data()
            && let Some(RelayEnd::Replica { credit, .. }) = &self.end
        {
            credit.record_first_byte(now());
            self.first_byte = FirstByte::Ignored;
        }
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
        let Some(RelayEnd::Replica { credit, verdict }) = &mut self.end else {
            return;
        };
        if let Some(status) = grpc::status(trailers) {
            *verdict = match status {
                tonic::Code::DeadlineExceeded => self.missed,
                status => grpc::verdict(status),
            };
        }
        if let Some(refusal) = trailers.remove(headers::REFUSED) {
            *verdict = codec::verdict_of_refusal(&refusal);
        }
        if self.protocol == Protocol::Grpc {
            learn(credit, trailers);
            headers::add_timing(trailers, credit.queued);
        }
    }

    fn finish(&mut self) {
        let at = now();
        match self.end.take() {
            Some(RelayEnd::Replica { credit, verdict }) => match verdict {
                Verdict::Succeeded | Verdict::Failed => credit.answered(verdict, at),
                Verdict::Refused => credit.refused(self.protocol),
                Verdict::Uncounted => credit.settle(Outcome::Abandoned, Verdict::Uncounted),
                // A gRPC response without a status counts as failed.
                Verdict::Open => credit.answered(Verdict::Failed, at),
            },
            Some(RelayEnd::Gateway) | None => {}
        }
        if let Some(body) = self.body.take() {
            body.finish(at);
        }
        self.drop_unread();
    }

    /// Reads the rest of an HTTP upload whose response ended first. A gRPC client reads its status while it sends, so
    /// its upload needs no reading.
    fn drop_unread(&mut self) {
        if self.protocol == Protocol::Http
            && let Some(unread) = self.upload.as_ref().and_then(UploadHandle::take_unread)
            && !unread.is_end_stream()
        {
            tokio::spawn(linger(unread));
        }
    }

    /// Ends a response early. Over HTTP the connection breaks; gRPC has trailers for the reason.
    fn break_off(
        &mut self,
        (outcome, verdict): (Outcome, Verdict),
        code: Code,
        sentence: &str,
    ) -> io::Result<Frame<Bytes>> {
        if let Some(RelayEnd::Replica { credit, .. }) = self.end.take() {
            if verdict == Verdict::Failed {
                credit.log_failure(code.label(), sentence);
            }
            credit.settle(outcome, verdict);
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

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        match body.poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(Some(Ok(self.pass(frame)))),
            Poll::Ready(Some(Err(error))) => {
                let sentence = format!("the replica broke off its response: {error}");
                let end = (Outcome::Failed, Verdict::Failed);
                let replica = self.replica();
                let frame = self.break_off(end, Code::Unavailable, &sentence);
                Poll::Ready(Some(frame.map_err(|error| match replica {
                    Some(replica) => io::Error::other(BrokenResponse { replica, sentence }),
                    None => error,
                })))
            }
            Poll::Ready(None) => {
                self.finish();
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.poll_rest(context);
                match self.poll_shutdown(context) {
                    Poll::Ready(end) => Poll::Ready(end),
                    Poll::Pending => self.poll_deadline(context),
                }
            }
        }
    }
}

/// Records the capacity and the batch that a replica reports in its headers.
pub(crate) fn learn(credit: &Credit, headers: &HeaderMap) {
    if let Some(capacity) = headers::number(headers, &headers::CAPACITY) {
        credit.queue().report_capacity(&credit.upstream, capacity);
    }
    // Each of the `size` requests of a batch reports the batch, so one report in `size` is recorded.
    if let Some((size, took)) = headers::batch(headers)
        && fastrand::u32(..size) == 0
    {
        credit.record_batch(size, took);
    }
}

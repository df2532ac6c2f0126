//! One request in the batch queue.

use http::Response;
use tokio::sync::oneshot;

use super::InFlightBatch;
use super::request::ParsedRequest;
use crate::body::BufferedBody;
use crate::body::DownstreamBody;
use crate::error::GatewayError;
use crate::pipeline::forward::{BatchPlace, ProxyRequest};
use crate::queue::Verdict;

/// A request, and the channel to the task that waits for its response.
pub(super) struct BatchEntry {
    pub(super) request: Box<ProxyRequest>,
    pub(super) buffered: Box<BufferedBody>,
    pub(super) parsed: ParsedRequest,
    pub(super) place: BatchPlace,
    pub(super) reply: oneshot::Sender<EntryResult>,
}

/// Outcome of an entry.
pub(super) enum EntryResult {
    /// The entry is forwarded unchanged by the request's own task.
    Alone {
        request: Box<ProxyRequest>,
        buffered: Box<BufferedBody>,
        /// Guard that is held until the response arrives; `None` if the entry's batch has failed.
        in_flight: Option<InFlightBatch>,
    },
    /// The entry's rows of the batch's response, or the response that all entries get.
    Answered(Response<DownstreamBody>, Verdict),
    /// The batch got no response that could be split.
    Failed(GatewayError),
}

impl BatchEntry {
    pub(super) fn new(
        request: ProxyRequest,
        buffered: BufferedBody,
        parsed: ParsedRequest,
        reply: oneshot::Sender<EntryResult>,
    ) -> Self {
        let (request, buffered) = (Box::new(request), Box::new(buffered));
        Self { request, buffered, parsed, place: BatchPlace::default(), reply }
    }

    /// Lets the request's own task forward the request unchanged. `in_flight` is `None` if the entry's batch has
    /// failed. If the client has disconnected, the guard is dropped here, which ends the batch.
    pub(super) fn forward_alone(self, in_flight: Option<InFlightBatch>) {
        let Self { mut request, buffered, reply, .. } = self;
        if in_flight.is_none() {
            request.count_as_queued();
        }
        drop(reply.send(EntryResult::Alone { request, buffered, in_flight }));
    }

    pub(super) fn answer(self, response: Response<DownstreamBody>, verdict: Verdict) {
        drop(self.reply.send(EntryResult::Answered(response, verdict)));
    }

    pub(super) fn fail(self, error: GatewayError) {
        drop(self.reply.send(EntryResult::Failed(error)));
    }
}

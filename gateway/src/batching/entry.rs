//! One request among those that gather.

use http::Response;
use tokio::sync::oneshot;

use super::in_flight::InFlightBatch;
use super::part::{Key, Part};
use crate::body::BufferedBody;
use crate::error::GatewayError;
use crate::forward::DownstreamBody;
use crate::forward::ProxyRequest;
use crate::queue::Verdict;

/// A request, and who waits for its answer.
pub(super) struct BatchEntry {
    pub(super) request: Box<ProxyRequest>,
    pub(super) buffered: Box<BufferedBody>,
    pub(super) part: Part,
    pub(super) tell: oneshot::Sender<EntryResult>,
}

/// What becomes of a member.
pub(super) enum EntryResult {
    /// It goes as it came.
    Alone {
        request: Box<ProxyRequest>,
        buffered: Box<BufferedBody>,
        /// Ends when its answer is there; none for one whose batch has failed.
        in_flight: Option<InFlightBatch>,
    },
    /// Its rows of the batch's answer, or the same refusal as the others.
    Answered(Response<DownstreamBody>, Verdict),
    /// The batch failed.
    Failed(GatewayError),
}

impl BatchEntry {
    pub(super) fn new(
        request: ProxyRequest,
        buffered: BufferedBody,
        part: Part,
        tell: oneshot::Sender<EntryResult>,
    ) -> Self {
        Self {
            request: Box::new(request),
            buffered: Box::new(buffered),
            part,
            tell,
        }
    }

    pub(super) fn key(&self) -> Key {
        self.part.key(&self.request)
    }

    /// Sends it on its own way. Who left meanwhile goes nowhere, and its flight ends.
    pub(super) fn go_alone(self, in_flight: Option<InFlightBatch>) {
        let Self {
            request,
            buffered,
            tell,
            ..
        } = self;
        drop(tell.send(EntryResult::Alone {
            request,
            buffered,
            in_flight,
        }));
    }

    pub(super) fn answer(self, response: Response<DownstreamBody>, verdict: Verdict) {
        drop(self.tell.send(EntryResult::Answered(response, verdict)));
    }

    pub(super) fn fail(self, error: GatewayError) {
        drop(self.tell.send(EntryResult::Failed(error)));
    }
}

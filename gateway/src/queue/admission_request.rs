//! A request for a credit, and the part of it that the revision's statistics contain already.

use std::time::{Duration, Instant};

use super::dispatcher::{DispatchRequest, Origin, Task};
use super::shares::ClientShare;

/// Request for a credit, with the time that it may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionRequest {
    pub(crate) sequence: Option<u64>,
    pub(crate) arrival: Arrival,
    pub(crate) bytes: usize,
    pub(crate) origin: Origin,
    pub(crate) task: Task,
    pub(crate) queued_since: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Longest wait while no replica takes requests.
    pub(crate) activation: Duration,
    /// The client that is charged for the request.
    pub(crate) share: ClientShare,
    /// The client whose wake-ups are limited; `None` without access control.
    pub(crate) limited: Option<ClientShare>,
}

/// Parts of a request that the revision's statistics already contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing is counted yet: the request has just arrived.
    New,
    /// The arrival is counted, because the request joined or left a batch.
    Counted,
    /// Arrival and queue time are both recorded, with a batch that the request has since left.
    QueueTimeRecorded,
}

/// Time that a request waits for a credit. The queue time is recorded only for a request's first credit, because the
/// autoscaler takes each recorded time as one more request.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueWait {
    pub(super) since: Instant,
    pub(super) round: AdmissionRound,
}

/// First or later admission of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdmissionRound {
    First,
    Later,
}

impl AdmissionRequest {
    /// Returns the request's wait. The round is `First` until the request has held a credit, which gives it a sequence
    /// number.
    pub(super) fn wait(&self) -> QueueWait {
        let round = match (self.sequence, self.arrival) {
            (None, Arrival::New | Arrival::Counted) => AdmissionRound::First,
            (None, Arrival::QueueTimeRecorded) | (Some(_), _) => AdmissionRound::Later,
        };
        QueueWait { since: self.queued_since, round }
    }

    pub(super) fn dispatch(&self) -> DispatchRequest {
        let &Self { sequence, bytes, deadline, origin, task, share, .. } = self;
        DispatchRequest { sequence, bytes, deadline, origin, task, share }
    }
}

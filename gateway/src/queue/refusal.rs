//! Errors of requests that get no credit.

use std::time::Duration;

use super::QueueLimit;
use super::RevisionQueue;
use super::admission_request::{AdmissionRequest, Arrival};
use super::queue_state::QueueState;
use crate::clock::now;
use crate::error::{ClientLimit, GatewayError};

impl RevisionQueue {
    pub(super) fn full(&self, state: &QueueState, content: QueueLimit) -> GatewayError {
        GatewayError::QueueFull {
            revision: self.name.to_string(),
            requests: content.requests,
            bytes: content.bytes,
            failure: state.failure_clause(),
        }
    }

    pub(super) fn not_ready(&self, state: &QueueState, request: &AdmissionRequest) -> GatewayError {
        GatewayError::NotReady {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(request.queued_since),
            because: state.why_closed(),
        }
    }

    /// Returns the error of a request that left the queue without a credit.
    pub(super) fn turned_away(&self, request: &AdmissionRequest, sequence: u64) -> GatewayError {
        let state = self.state.lock();
        if state.is_over() {
            return GatewayError::Gone(self.name.to_string());
        }
        if state.cannot_start() {
            return self.not_ready(&state, request);
        }
        drop(state);
        self.late(request, sequence)
    }

    pub(super) fn late(&self, request: &AdmissionRequest, sequence: u64) -> GatewayError {
        let state = self.state.lock();
        GatewayError::LateInQueue {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(request.queued_since),
            ahead: state.dispatcher.ahead(sequence),
            failure: state.failure_clause(),
        }
    }

    /// Returns the last failure as a clause for the end of an error's sentence; empty if a replica is ready.
    pub(crate) fn failure_clause(&self) -> String {
        self.state.lock().failure_clause()
    }

    /// Counts a request that had to leave the full queue, and returns its error.
    pub(super) fn displaced(&self, request: &AdmissionRequest) -> GatewayError {
        if request.sequence.is_none() && request.arrival == Arrival::New {
            self.count_refused();
        }
        over_share()
    }

    pub(super) fn not_owner(&self) -> GatewayError {
        GatewayError::NotOwner(self.name.to_string())
    }
}

/// Returns the error for a client that already uses its share of a full queue. After a second, the queue has advanced.
pub(super) fn over_share() -> GatewayError {
    GatewayError::OverLimit { limit: ClientLimit::QueueShare, after: Duration::from_secs(1) }
}

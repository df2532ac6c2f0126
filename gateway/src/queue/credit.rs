//! A credit in use: permission for one request to be at a replica, given back with the outcome of the request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use super::RevisionQueue;
use super::admission_request::{AdmissionRound, QueueWait};
use super::dispatcher::{EndpointId, Granted};
use super::shares::Charge;
use super::verdict::{Outcome, Verdict};
use crate::clock::{now, until};
use crate::upstream::{Channel, RequestKind, Upstream};
use crate::wire::protocol::Protocol;

/// Permission to have one request at a replica. A dropped credit is given back as abandoned: at once, or once the replica
/// has probably finished a request that was sent and not answered.
pub(crate) struct Credit {
    queue: Arc<RevisionQueue>,
    id: EndpointId,
    /// The request's sequence number, which keeps its order in the queue if it is retried.
    pub(crate) sequence: u64,
    pub(crate) upstream: Arc<Upstream>,
    /// Channel to the replica, if the request is a call over HTTP/2.
    pub(crate) channel: Channel,
    /// Time for which the request has waited for this credit.
    pub(crate) queued: Duration,
    pub(crate) since: Instant,
    /// Requests of this gateway at the replica when the credit was granted, this one included.
    company: u32,
    round: AdmissionRound,
    /// Cost that the request's client was charged in advance.
    charge: Option<Charge>,
    /// Number of other requests in the same batch; `None` if the request is not a batch.
    others: Option<u32>,
    open: bool,
    /// True from the sending of the request to the head of its response.
    awaits_answer: bool,
    rest: Rest,
    /// Kind of the request for the replica's load.
    kind: RequestKind,
}

/// Rest of the stream that holds the credit. A stream rests while the gateway waits for the client's next message;
/// meanwhile its credit is lent to other requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rest {
    Never,
    Now,
    /// The stream rested earlier, so its duration includes the client's pauses and says nothing about the replica.
    Before,
}

impl Credit {
    pub(super) fn new(
        queue: &Arc<RevisionQueue>,
        granted: Granted<Arc<Upstream>>,
        wait: QueueWait,
        since: Instant,
        channel: Channel,
    ) -> Self {
        granted.replica.load.begin();
        let company = granted.replica.load.get().requests;
        Self {
            company,
            queue: Arc::clone(queue),
            id: granted.id,
            channel,
            sequence: granted.sequence,
            upstream: granted.replica,
            queued: since.saturating_duration_since(wait.since),
            since,
            round: wait.round,
            charge: granted.charge,
            others: None,
            open: true,
            awaits_answer: false,
            rest: Rest::Never,
            kind: RequestKind::Unary,
        }
    }

    pub(crate) fn queue(&self) -> &Arc<RevisionQueue> {
        &self.queue
    }

    /// Returns the endpoint against which the credit counts.
    pub(crate) fn endpoint(&self) -> EndpointId {
        self.id
    }

    /// Returns true if another replica takes requests too.
    pub(crate) fn has_others(&self) -> bool {
        let serving = self.queue.state.lock().dispatcher.serving();
        serving.is_some_and(|open| open > 1)
    }

    /// Returns true if another replica takes requests, and the last request at it did not fail.
    pub(crate) fn others_work(&self) -> bool {
        self.queue.state.lock().dispatcher.others_work(self.id)
    }

    /// Returns the measured limit of the replica; `None` if it is configured, reported or unknown.
    pub(crate) fn measured_limit(&self) -> Option<u32> {
        self.queue.state.lock().dispatcher.measured_limit(self.id)
    }

    /// Gives the credit back after a complete response.
    pub(crate) fn answered(mut self, verdict: Verdict, at: Instant) {
        if verdict == Verdict::Failed {
            self.log_failure("error_response", "the replica answered with an error");
        }
        let took = at.saturating_duration_since(self.since);
        let outcome = match (self.rest, verdict) {
            (Rest::Never, Verdict::Failed) => Outcome::AnsweredError(took),
            (Rest::Never, Verdict::Succeeded | Verdict::Refused | Verdict::Uncounted | Verdict::Open) => {
                Outcome::Answered(took)
            }
            (Rest::Now | Rest::Before, _) => Outcome::Abandoned,
        };
        self.close(outcome, verdict, at);
    }

    /// Gives the credit back after a refusal that is sent to the client and has no service time. Over gRPC the status
    /// of a refusal also stands for a message that is too large, so it says nothing about the replica.
    pub(crate) fn refused(self, protocol: Protocol) {
        let outcome = match protocol {
            Protocol::Http => Outcome::Full,
            Protocol::Grpc => Outcome::Abandoned,
        };
        self.settle(outcome, Verdict::Refused);
    }

    /// Gives the credit back after an attempt with this outcome.
    pub(crate) fn settle(mut self, outcome: Outcome, verdict: Verdict) {
        self.close(outcome, verdict, now());
    }

    /// Records that the request is sent to the replica.
    pub(crate) fn begin_attempt(&mut self) {
        self.awaits_answer = true;
    }

    /// Records that the response has begun, or that the attempt failed.
    pub(crate) fn end_attempt(&mut self) {
        self.awaits_answer = false;
    }

    /// Records that the replica sends a response of unknown length: a scale-in removes such a replica last.
    pub(crate) fn become_stream(&mut self) {
        if self.kind == RequestKind::Unary {
            self.kind = RequestKind::Stream;
            self.upstream.load.become_stream();
        }
    }

    /// Records the first byte of a streamed response. Nothing is recorded for a replica that reports how many requests
    /// wait inside it, because these requests are counted already.
    pub(crate) fn record_first_byte(&self, at: Instant) {
        if !self.upstream.engine_queue.is_known() {
            let took = at.saturating_duration_since(self.since);
            self.queue.first_bytes.lock().record(took, self.company);
        }
    }

    /// Records that the request has become a connection without an end in sight. A measured limit follows the answers
    /// per second, and such a connection gives none. The credit of the connection is therefore lent to other requests.
    /// Under a limit that the service or the replica sets, the connection holds its credit.
    pub(crate) fn become_tunnel(&mut self) {
        self.become_stream();
        if self.queue.has_measured_limit(self.id) {
            self.rest();
        }
    }

    /// Lends the credit to other requests until [`Self::resume`], because its stream waits for the client.
    pub(crate) fn rest(&mut self) {
        if self.rest != Rest::Now {
            self.rest = Rest::Now;
            self.queue.rest(self.id, self.charge);
        }
    }

    /// Takes the credit back, even if the replica already has as many requests as it takes: the stream cannot move to
    /// another replica.
    pub(crate) fn resume(&mut self) {
        if self.rest == Rest::Now {
            self.rest = Rest::Before;
            self.queue.resume(self.id, self.charge);
        }
    }

    pub(crate) fn is_resting(&self) -> bool {
        self.rest == Rest::Now
    }

    /// Returns the charge of the request's client, and the time for which the request was at its replica. The time of a
    /// stream that has rested is not known.
    pub(super) fn cost(&self, at: Instant) -> (Option<Charge>, Option<Duration>) {
        let took = match self.rest {
            Rest::Never => Some(at.saturating_duration_since(self.since)),
            Rest::Now | Rest::Before => None,
        };
        (self.charge, took)
    }

    /// Returns the number of requests that the credit stands for.
    pub(super) fn requests(&self) -> u32 {
        1 + self.others.unwrap_or(0)
    }

    /// Returns true if the credit stands for a batch, whose requests each count their own end.
    pub(super) fn is_batch(&self) -> bool {
        self.others.is_some()
    }

    /// Makes the credit stand for a batch. `others` are the times from which the batch's other requests have waited;
    /// `None` if the request is not a batch.
    pub(crate) fn cover_batch(&mut self, others: Option<&[Instant]>) {
        let Some(others) = others else { return };
        let count = u32::try_from(others.len()).unwrap_or(u32::MAX);
        self.others = Some(count);
        let mut state = self.queue.state.lock();
        state.in_flight += count;
        let counted: &[Instant] = match self.round {
            AdmissionRound::First => others,
            AdmissionRound::Later => &[],
        };
        for queued_since in counted {
            let queued = self.since.saturating_duration_since(*queued_since);
            state.activity.queue_delay.record(queued);
        }
        state.reported = None;
    }

    /// Records the size and duration of a batch that the replica reports.
    pub(crate) fn record_batch(&self, size: u32, took: Duration) {
        let mut state = self.queue.state.lock();
        state.activity.batches.record(size, took);
        state.reported = None;
    }

    fn close(&mut self, outcome: Outcome, verdict: Verdict, at: Instant) {
        self.open = false;
        self.upstream.load.end(self.kind);
        self.resume();
        self.queue.release(self, outcome, verdict, at);
    }

    /// Returns the time until which the credit should be kept after its request was given up; `None` if it should be given
    /// back at once. While the credit of an upload is lent, the replica has nothing to work on.
    fn kept_until(&self, at: Instant) -> Option<Instant> {
        let is_at_work = self.awaits_answer && !self.is_resting();
        is_at_work.then(|| self.queue.give_up(self.charge, self.since, at)).flatten()
    }

    /// Keeps the credit until `end` in a task of its own. The number of credits limits the number of these tasks.
    fn keep(&mut self, end: Instant, runtime: &Handle) {
        let (queue, upstream) = (Arc::clone(&self.queue), Arc::clone(&self.upstream));
        let kept = Self { queue, upstream, awaits_answer: false, ..*self };
        self.open = false;
        runtime.spawn(async move {
            until(Some(end)).await;
            drop(kept);
        });
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        match (self.kept_until(now()), Handle::try_current()) {
            (Some(end), Ok(runtime)) => self.keep(end, &runtime),
            (Some(_) | None, _) => self.close(Outcome::Abandoned, Verdict::Open, now()),
        }
    }
}

#[cfg(test)]
mod tests;

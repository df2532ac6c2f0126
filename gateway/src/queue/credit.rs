//! A credit that is being used.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{RetryTimer, RevisionQueue, notify};
use crate::clock::{now, until};
use crate::queue::dispatcher::{EndpointId, Granted, Outcome};
use crate::upstream::Upstream;

/// Permission to have a request at a replica. Dropped, it is given back as abandoned.
pub(crate) struct Credit {
    queue: Arc<RevisionQueue>,
    id: EndpointId,
    /// The request's place in the order, for when it has to come back.
    pub(crate) sequence: u64,
    pub(crate) upstream: Arc<Upstream>,
    /// From the request's arrival to this credit.
    pub(crate) queued: Duration,
    pub(crate) since: Instant,
    /// Other requests in the same batch; none of a batch counts its end here.
    others: Option<u32>,
    open: bool,
}

/// How a request ended, for the counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Not by an error of ours or the replica's.
    Succeeded,
    /// By such an error.
    Failed,
    /// The replica had no room for it, and did nothing.
    Refused,
    /// It did not end yet, or nobody waits for its end.
    Open,
}

impl Credit {
    pub(super) fn new(
        queue: &Arc<RevisionQueue>,
        granted: Granted<Arc<Upstream>>,
        queued: Duration,
        since: Instant,
    ) -> Self {
        Self {
            queue: Arc::clone(queue),
            id: granted.id,
            sequence: granted.sequence,
            upstream: granted.replica,
            queued,
            since,
            others: None,
            open: true,
        }
    }

    pub(crate) fn queue(&self) -> &Arc<RevisionQueue> {
        &self.queue
    }

    /// Whose it is.
    pub(crate) fn endpoint(&self) -> EndpointId {
        self.id
    }

    /// Whether another replica takes requests too.
    pub(crate) fn has_others(&self) -> bool {
        let serving = self.queue.state.lock().dispatcher.serving();
        serving.is_some_and(|open| open > 1)
    }

    /// The replica answered to the end.
    pub(crate) fn answered(mut self, verdict: Verdict, at: Instant) {
        let took = at.saturating_duration_since(self.since);
        self.close(Outcome::Answered(took), verdict, at);
    }

    /// The replica refused it to the end: that is no time of service, and the client is told.
    pub(crate) fn refused(self) {
        self.settle(Outcome::Abandoned, Verdict::Refused);
    }

    /// Gives it back.
    pub(crate) fn settle(mut self, outcome: Outcome, verdict: Verdict) {
        self.close(outcome, verdict, now());
    }

    /// It is for a batch: of these other requests, too, which came at these times.
    pub(crate) fn stand_for(&mut self, others: &[Instant]) {
        let count = u32::try_from(others.len()).unwrap_or(u32::MAX);
        self.others = Some(count);
        let mut state = self.queue.state.lock();
        state.in_flight += count;
        for arrived in others {
            let queued = self.since.saturating_duration_since(*arrived);
            state.activity.queue_delay.record(queued);
        }
        state.reported = None;
    }

    /// Counts a batch that the replica reports.
    pub(crate) fn record_batch(&self, size: u32, took: Duration) {
        let mut state = self.queue.state.lock();
        state.activity.batches.record(size, took);
        state.reported = None;
    }

    fn close(&mut self, outcome: Outcome, verdict: Verdict, at: Instant) {
        self.open = false;
        let mut state = self.queue.state.lock();
        if self.others.is_none() {
            state.count(verdict);
        }
        let requests = 1 + self.others.unwrap_or(0);
        if let Outcome::Answered(took) = outcome {
            (0..requests).for_each(|_| state.activity.service_time.record(took));
        }
        state.in_flight = state.in_flight.saturating_sub(requests);
        let dequeued = state.dispatcher.settle(self.id, outcome, at);
        let wakeups = state.wakeups(&self.queue, dequeued, at);
        let rests = state.dispatcher.next_rested(at).is_some();
        let is_timer_new = rests && state.retry_timer == RetryTimer::Off;
        if is_timer_new {
            state.retry_timer = RetryTimer::Set;
        }
        drop(state);
        notify(wakeups);
        if is_timer_new {
            tokio::spawn(Arc::clone(&self.queue).serve_rested());
        }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if self.open {
            self.close(Outcome::Abandoned, Verdict::Open, now());
        }
    }
}

impl RevisionQueue {
    /// Gives credits of replicas that rested to those who wait, until none rests any more.
    async fn serve_rested(self: Arc<Self>) {
        loop {
            let next = {
                let mut state = self.state.lock();
                let next = state.dispatcher.next_rested(now());
                if next.is_none() {
                    state.retry_timer = RetryTimer::Off;
                }
                next
            };
            if next.is_some() {
                until(next).await;
            }
            self.serve();
            if next.is_none() {
                return;
            }
        }
    }

    fn serve(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let at = now();
        let dequeued = state.dispatcher.serve(at);
        let wakeups = state.wakeups(self, dequeued, at);
        drop(state);
        notify(wakeups);
    }
}

//! Gives credits back and passes them on to queued requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::RevisionQueue;
use super::credit::Credit;
use super::dispatcher::EndpointId;
use super::queue_state::{QueueState, notify};
use super::shares::Charge;
use super::verdict::{Outcome, Verdict};
use crate::clock::{now, until};

/// Longest time between two looks for the next time of a dispatch. An event may bring that time forward, such as the
/// ejection of a replica, which lasts for 50 ms at first.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);

impl RevisionQueue {
    /// Takes a credit back, counts the end of its request, and dispatches queued requests.
    pub(super) fn release(self: &Arc<Self>, credit: &Credit, outcome: Outcome, verdict: Verdict, at: Instant) {
        let mut state = self.state.lock();
        if !credit.is_batch() {
            state.count(verdict);
        }
        let requests = credit.requests();
        if let Some(took) = outcome.service_time() {
            (0..requests).for_each(|_| state.activity.service_time.record(took));
        }
        if let Outcome::Answered(took) = outcome {
            state.answer_time.record(took);
        }
        state.in_flight = state.in_flight.saturating_sub(requests);
        let (charge, took) = credit.cost(at);
        state.dispatcher.charge(charge, took, at);
        let dequeued = state.dispatcher.settle(credit.endpoint(), outcome, at);
        let wakeups = state.wakeups(self, dequeued, at);
        self.keep_timer(&mut state, at);
        drop(state);
        notify(wakeups);
    }

    /// Starts the task that dispatches queued requests at certain times, unless it runs or there is no such time.
    pub(super) fn keep_timer(self: &Arc<Self>, state: &mut QueueState, at: Instant) {
        if !state.has_retry_timer && state.next_dispatch(at).is_some() {
            state.has_retry_timer = true;
            tokio::spawn(Arc::clone(self).dispatch_on_time());
        }
    }

    /// Lends a credit to other requests while its stream rests. The revision still counts the stream as in flight, so
    /// that it is not scaled to zero meanwhile.
    pub(super) fn rest(self: &Arc<Self>, id: EndpointId, charge: Option<Charge>) {
        let mut state = self.state.lock();
        let at = now();
        let dequeued = state.dispatcher.rest(id, charge, at);
        let wakeups = state.wakeups(self, dequeued, at);
        self.keep_timer(&mut state, at);
        drop(state);
        notify(wakeups);
    }

    /// Counts a request that its client gave up at `at`, and that a replica got at `since`. Returns the time at which the
    /// replica is expected to have finished it; `None` if the replica is expected to be free already.
    pub(super) fn give_up(&self, charge: Option<Charge>, since: Instant, at: Instant) -> Option<Instant> {
        let mut state = self.state.lock();
        let kept = charge.map_or(Duration::ZERO, |charge| state.given_up.record(charge.client(), at));
        let least = (!kept.is_zero()).then(|| at + kept);
        state.answer_time.expected_end(since, at).max(least)
    }

    /// Returns true if the replica's limit is measured from its answers.
    pub(super) fn has_measured_limit(&self, id: EndpointId) -> bool {
        self.state.lock().dispatcher.has_measured_limit(id)
    }

    /// Takes back a credit that was lent.
    pub(super) fn resume(&self, id: EndpointId, charge: Option<Charge>) {
        self.state.lock().dispatcher.resume(id, charge, now());
    }

    /// Dispatches queued requests each time an ejected replica is readmitted or a replica's limit grows without an
    /// answer, until neither will happen.
    async fn dispatch_on_time(self: Arc<Self>) {
        loop {
            let next = {
                let (mut state, at) = (self.state.lock(), now());
                let next = state.next_dispatch(at);
                state.has_retry_timer = next.is_some();
                next.map(|next| next.min(at + LONGEST_SLEEP))
            };
            if next.is_some() {
                until(next).await;
            }
            self.dispatch_queued();
            if next.is_none() {
                return;
            }
        }
    }

    fn dispatch_queued(self: &Arc<Self>) {
        let mut state = self.state.lock();
        let at = now();
        let dequeued = state.dispatcher.serve(at);
        let wakeups = state.wakeups(self, dequeued, at);
        drop(state);
        notify(wakeups);
    }
}

#[cfg(test)]
mod tests;

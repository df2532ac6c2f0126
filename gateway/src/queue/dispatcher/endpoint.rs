//! A replica as the dispatcher sees it: its credits, and its ejection after failures.

use std::time::{Duration, Instant};

use crate::queue::concurrency::{ConcurrencyLimit, Usage};
use crate::queue::fixed_hash;
use crate::queue::verdict::Outcome;

/// Number of an endpoint, which is never reused.
pub(crate) type EndpointId = u64;

/// A replica that the cluster reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointSpec<R> {
    /// The replica. After a restart it compares as a different replica.
    pub(crate) replica: R,
    /// Name of the replica, the same at all gateways.
    pub(crate) name: std::sync::Arc<str>,
    /// Open if the replica takes requests.
    pub(crate) state: EndpointState,
    /// The service's `containerConcurrency`; `None` if it sets none.
    pub(crate) concurrency: Option<u32>,
}

/// State that the platform reports for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointState {
    /// The replica takes new requests.
    Open,
    /// The replica takes no new requests and finishes those that it has.
    Closed,
}

/// Ejection after the first failure or after a refusal. The platform notices a crashed process within a few times this,
/// and a full replica has finished a request by then.
const BASE_EJECTION: Duration = Duration::from_millis(50);

/// Longest ejection. Each failure in a row doubles the ejection up to this, so that a recovered replica is soon used
/// again.
const MAX_EJECTION: Duration = Duration::from_secs(2);

/// Number of doublings after which `BASE_EJECTION` exceeds [`MAX_EJECTION`].
const MAX_DOUBLINGS: u32 = 6;

#[derive(Debug)]
pub(super) struct Endpoint<R> {
    pub(super) id: EndpointId,
    pub(super) replica: R,
    pub(super) credits: ConcurrencyLimit,
    pub(super) in_flight: u32,
    pub(super) state: EndpointState,
    /// Hash of the replica's name: differs between replicas, and is the same at all gateways.
    pub(super) offset: u32,
    /// Value of the dispatcher's grant counter at the last grant.
    pub(super) granted: u64,
    pub(super) ejected_until: Option<Instant>,
    failures: u32,
    concurrency: Option<u32>,
}

impl<R> Endpoint<R> {
    pub(super) fn new(id: EndpointId, spec: EndpointSpec<R>) -> Self {
        Self {
            id,
            replica: spec.replica,
            credits: ConcurrencyLimit::new(spec.concurrency),
            in_flight: 0,
            state: spec.state,
            offset: fixed_hash::of([&*spec.name]) as u32,
            granted: 0,
            ejected_until: None,
            failures: 0,
            concurrency: spec.concurrency,
        }
    }

    /// Applies a new specification of the same replica and keeps what was measured.
    pub(super) fn changed(mut self, spec: EndpointSpec<R>) -> Self {
        if (self.state, spec.state) == (EndpointState::Closed, EndpointState::Open) {
            // The platform has checked that the replica is ready.
            self.readmit();
        }
        self.state = spec.state;
        if self.concurrency != spec.concurrency {
            self.concurrency = spec.concurrency;
            self.credits = ConcurrencyLimit::new(spec.concurrency);
        }
        self
    }

    /// Ends an attempt, which may eject or readmit the replica. `usage` includes the attempt's request.
    pub(super) fn settle(&mut self, outcome: Outcome, usage: Usage, now: Instant) {
        match outcome {
            Outcome::Answered(took) => {
                self.credits.answered(usage, took, now);
                self.readmit();
            }
            Outcome::AnsweredError(_) => self.readmit(),
            Outcome::Abandoned => {}
            Outcome::Declined => self.eject(now + BASE_EJECTION),
            Outcome::Refused => {
                self.credits.refused(usage);
                self.eject(now + BASE_EJECTION);
            }
            Outcome::Full => self.credits.refused(usage),
            Outcome::Failed => self.fail(now),
            Outcome::InvalidResponse | Outcome::Stuck => self.eject(now + MAX_EJECTION),
        }
        self.credits.ended(now);
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Ejects a failed replica, longer with each failure in a row. When a replica dies, all its requests fail together;
    /// they count as one failure.
    fn fail(&mut self, now: Instant) {
        if self.is_available(now) {
            let ejection = BASE_EJECTION * (1 << self.failures.min(MAX_DOUBLINGS));
            self.failures += 1;
            self.eject(now + ejection.min(MAX_EJECTION));
        }
    }

    /// Stops sending requests to the replica until `until`.
    fn eject(&mut self, until: Instant) {
        self.ejected_until = Some(until);
    }

    /// Ends the replica's ejection, and forgets its failures in a row.
    fn readmit(&mut self) {
        (self.failures, self.ejected_until) = (0, None);
    }

    /// Returns true if the last attempt at the replica failed.
    pub(super) fn has_failed(&self) -> bool {
        self.failures > 0
    }

    pub(super) fn is_available(&self, now: Instant) -> bool {
        let is_ejected = self.ejected_until.is_some_and(|until| until > now);
        self.state == EndpointState::Open && !is_ejected
    }

    /// Returns the fraction of the replica's credits that is in use.
    pub(super) fn load(&self) -> f64 {
        f64::from(self.in_flight) / f64::from(self.credits.limit())
    }
}

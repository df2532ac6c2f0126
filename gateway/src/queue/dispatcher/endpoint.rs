//! A replica as a dispatcher sees it: its credits, and its ejection after failures.

use std::time::{Duration, Instant};

use crate::queue::concurrency::{ConcurrencyLimit, Usage};
use crate::queue::fixed_hash;
use crate::queue::verdict::Outcome;

/// Number of an endpoint, never reused.
pub(crate) type EndpointId = u64;

/// A replica that may get requests.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointSpec<R> {
    /// The replica; a restarted one is a different one.
    pub(crate) replica: R,
    /// Its name, which is the same at all gateways.
    pub(crate) name: std::sync::Arc<str>,
    /// Open if it takes requests.
    pub(crate) state: EndpointState,
    /// Requests at once that the service configures.
    pub(crate) concurrency: Option<u32>,
}

/// State of a replica that the platform reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointState {
    /// It takes new requests.
    Open,
    /// It finishes those that it has.
    Closed,
}

/// Ejection after the first failure or a refusal. The platform notices a crashed process within some of these; a
/// full replica has finished a request by then.
const BASE_EJECTION: Duration = Duration::from_millis(50);

/// Longest ejection: each failure in a row doubles it up to here, so that a replica that recovers is used again soon.
const MAX_EJECTION: Duration = Duration::from_secs(2);

/// `BASE_EJECTION` doubled so often is more than [`MAX_EJECTION`].
const MAX_DOUBLINGS: u32 = 6;

#[derive(Debug)]
pub(super) struct Endpoint<R> {
    pub(super) id: EndpointId,
    pub(super) replica: R,
    pub(super) credits: ConcurrencyLimit,
    pub(super) in_flight: u32,
    pub(super) state: EndpointState,
    /// Differs from replica to replica, but not from gateway to gateway.
    pub(super) offset: u32,
    /// When it last got a request, as a count of grants.
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

    /// Applies another specification of the same replica. What was measured stays.
    pub(super) fn changed(mut self, spec: EndpointSpec<R>) -> Self {
        if (self.state, spec.state) == (EndpointState::Closed, EndpointState::Open) {
            // The platform has checked it.
            self.readmit();
        }
        self.state = spec.state;
        if self.concurrency != spec.concurrency {
            self.concurrency = spec.concurrency;
            self.credits = ConcurrencyLimit::new(spec.concurrency);
        }
        self
    }

    /// Ends an attempt, which may eject or readmit the replica. `usage` includes its request.
    pub(super) fn settle(&mut self, outcome: Outcome, usage: Usage, now: Instant) {
        match outcome {
            Outcome::Answered(_) => {
                self.credits.answered(usage, now);
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
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Ejects a failed replica, longer with each failure in a row. All its requests fail at once when a replica
    /// dies: that is one failure.
    fn fail(&mut self, now: Instant) {
        if self.is_available(now) {
            let ejection = BASE_EJECTION * (1 << self.failures.min(MAX_DOUBLINGS));
            self.failures += 1;
            self.eject(now + ejection.min(MAX_EJECTION));
        }
    }

    /// Sends the replica no request before `until`.
    fn eject(&mut self, until: Instant) {
        self.ejected_until = Some(until);
    }

    /// Sends it requests again, and forgets its failures.
    fn readmit(&mut self) {
        (self.failures, self.ejected_until) = (0, None);
    }

    pub(super) fn is_available(&self, now: Instant) -> bool {
        let is_ejected = self.ejected_until.is_some_and(|until| until > now);
        self.state == EndpointState::Open && !is_ejected
    }

    /// Fraction of its credits in use.
    pub(super) fn load(&self) -> f64 {
        f64::from(self.in_flight) / f64::from(self.credits.limit())
    }
}

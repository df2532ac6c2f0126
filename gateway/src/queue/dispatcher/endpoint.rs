//! A replica, as the desk sees it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use crate::queue::concurrency::Credits;

/// Which replica, for as long as it is there; never used again.
pub(crate) type EndpointId = u64;

/// A replica to give requests to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EndpointSpec<R> {
    /// The replica; one that was started again is another one.
    pub(crate) replica: R,
    /// Its name, the same for all gateways.
    pub(crate) name: std::sync::Arc<str>,
    /// Whether it takes requests.
    pub(crate) state: EndpointState,
    /// Requests at once as the service says.
    pub(crate) concurrency: Option<u32>,
}

/// Whether a replica takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointState {
    /// It does.
    Open,
    /// It may finish those that it has.
    Closed,
}

/// What became of a request at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Answered after this time.
    Answered(Duration),
    /// The client left, or its time was over: that says nothing about the replica.
    Abandoned,
    /// The replica refused it, without having worked on it; or it was not sent there, having been there before.
    Refused,
    /// The replica could not be reached, or broke off before it answered.
    Failed,
    /// The replica answered with what is no answer: nothing that passes in a moment.
    InvalidResponse,
}

/// How long a replica that failed or refused gets nothing new. A process that crashed is noticed by its
/// platform within some of these; one that is full has finished something by then.
const REST: Duration = Duration::from_millis(50);

/// Each failure in a row doubles the rest, up to here: a replica that comes back is not missed for long.
const LONGEST_REST: Duration = Duration::from_secs(2);

/// `REST` doubled so often is more than [`LONGEST_REST`].
const MAX_DOUBLINGS: u32 = 6;

#[derive(Debug)]
pub(super) struct Endpoint<R> {
    pub(super) id: EndpointId,
    pub(super) replica: R,
    pub(super) credits: Credits,
    pub(super) in_flight: u32,
    pub(super) state: EndpointState,
    /// Differs from replica to replica, but not from gateway to gateway.
    pub(super) offset: u32,
    /// When it last got a request, as a count of grants.
    pub(super) granted: u64,
    pub(super) rest_until: Option<Instant>,
    failures: u32,
    concurrency: Option<u32>,
}

impl<R> Endpoint<R> {
    pub(super) fn new(id: EndpointId, spec: EndpointSpec<R>) -> Self {
        let mut hasher = DefaultHasher::new();
        spec.name.hash(&mut hasher);
        Self {
            id,
            replica: spec.replica,
            credits: Credits::new(spec.concurrency),
            in_flight: 0,
            state: spec.state,
            offset: hasher.finish() as u32,
            granted: 0,
            rest_until: None,
            failures: 0,
            concurrency: spec.concurrency,
        }
    }

    /// The same replica in another state. What was learned of it stays.
    pub(super) fn changed(mut self, spec: EndpointSpec<R>) -> Self {
        if (self.state, spec.state) == (EndpointState::Closed, EndpointState::Open) {
            // Somebody looked, and it is well.
            (self.failures, self.rest_until) = (0, None);
        }
        self.state = spec.state;
        if self.concurrency != spec.concurrency {
            self.concurrency = spec.concurrency;
            self.credits = Credits::new(spec.concurrency);
        }
        self
    }

    pub(super) fn settle(&mut self, outcome: Outcome, now: Instant) {
        match outcome {
            Outcome::Answered(took) => {
                self.credits.observe(took, self.in_flight);
                (self.failures, self.rest_until) = (0, None);
            }
            Outcome::Abandoned => {}
            Outcome::Refused => self.rest_until = Some(now + REST),
            Outcome::Failed => self.fail(now),
            Outcome::InvalidResponse => self.rest_until = Some(now + LONGEST_REST),
        }
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// All that were there fail at once when a replica dies: that is one failure.
    fn fail(&mut self, now: Instant) {
        if self.is_awake(now) {
            let rest = REST * (1 << self.failures.min(MAX_DOUBLINGS));
            self.failures += 1;
            self.rest_until = Some(now + rest.min(LONGEST_REST));
        }
    }

    pub(super) fn is_awake(&self, now: Instant) -> bool {
        let is_rested = self.rest_until.is_none_or(|until| until <= now);
        self.state == EndpointState::Open && is_rested
    }

    /// The share of its credits that is taken.
    pub(super) fn load(&self) -> f64 {
        f64::from(self.in_flight) / f64::from(self.credits.limit())
    }
}

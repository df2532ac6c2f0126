//! What a line keeps under its lock.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use tokio::sync::oneshot;
use weir_cluster::{Activity, Failure};

use super::credit::{Credit, Verdict};
use super::{Level, Line};
use crate::desk::{Desk, Granted, Turn, Turns};
use crate::upstream::Upstream;

/// What is known of a revision and what it has, under its lock.
pub(super) struct State {
    pub(super) desk: Desk<Arc<Upstream>, Waiter>,
    pub(super) activity: Activity,
    pub(super) in_flight: u32,
    pub(super) level: Level,
    pub(super) failure: Option<Failure>,
    /// What was last reported; none after a change.
    pub(super) reported: Option<Arc<Activity>>,
    /// Whether a task waits for replicas that rest.
    pub(super) alarm: Alarm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alarm {
    Off,
    Set,
}

pub(super) struct Waiter {
    pub(super) tell: oneshot::Sender<Turned>,
    pub(super) since: Instant,
}

pub(super) enum Turned {
    Go(Credit),
    Elsewhere(u32),
    NotOwner,
}

pub(super) type Told = SmallVec<[(oneshot::Sender<Turned>, Turned); 1]>;

impl State {
    pub(super) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Succeeded => self.activity.succeeded += 1,
            Verdict::Failed => self.activity.failed += 1,
            Verdict::Refused => self.activity.refused += 1,
            Verdict::Open => {}
        }
    }

    /// Whether nobody will ever be served here again.
    pub(super) fn is_over(&self) -> bool {
        self.level == Level::Gone && !self.desk.is_open()
    }

    pub(super) fn arrive(&mut self, is_new: bool) {
        self.activity.arrivals += u64::from(is_new);
        self.reported = None;
    }

    /// Counts a request that waits at zero; whether it is the first, whom nobody was told of.
    pub(super) fn wakes(&mut self, is_new: bool) -> bool {
        if self.level == Level::Zero {
            self.activity.woken += u64::from(is_new);
        }
        self.level == Level::Zero && self.desk.queued().requests == 1
    }

    pub(super) fn credit(
        &mut self,
        line: &Arc<Line>,
        granted: Granted<Arc<Upstream>>,
        arrived: Instant,
        at: Instant,
    ) -> Credit {
        self.in_flight += 1;
        self.reported = None;
        let queued = at.saturating_duration_since(arrived);
        self.activity.queue_delay.record(queued);
        Credit::new(line, granted, queued, at)
    }

    pub(super) fn told(
        &mut self,
        line: &Arc<Line>,
        turns: Turns<Arc<Upstream>, Waiter>,
        at: Instant,
    ) -> Told {
        self.reported = None;
        let tell = |turn: Turn<Arc<Upstream>, Waiter>| match turn {
            Turn::Go(waiter, granted) => {
                let credit = self.credit(line, granted, waiter.since, at);
                Some((waiter.tell, Turned::Go(credit)))
            }
            Turn::Elsewhere(waiter, owner) => Some((waiter.tell, Turned::Elsewhere(owner))),
            Turn::NotOwner(waiter) => Some((waiter.tell, Turned::NotOwner)),
            // Its task sees that nobody will tell it.
            Turn::Late(_) => None,
        };
        turns.into_iter().filter_map(tell).collect()
    }
}

/// Never under the lock: whoever left meanwhile gives its credit back right here.
pub(super) fn tell(told: Told) {
    for (waiter, turned) in told {
        drop(waiter.send(turned));
    }
}

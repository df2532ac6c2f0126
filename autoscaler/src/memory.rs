//! What is remembered of a revision between two decisions.

mod arrivals;
mod curve;
mod levels;
mod watch;

use std::time::Duration;

pub(crate) use arrivals::Arrivals;
pub(crate) use curve::Curve;
pub(crate) use levels::Levels;
use levels::Met;
pub(crate) use watch::Watch;

use crate::{Policy, Sample, Sight};

/// What is remembered of a revision between two decisions. The default remembers nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The last sample's time; unset before the first.
    at: Option<Duration>,
    /// Time in which everything was seen: idleness is measured by it, so that it does not pass while
    /// gateways are silent.
    pub(crate) seen: Duration,
    /// When, by that time, something last happened.
    active: Duration,
    pub(crate) arrivals: Arrivals,
    pub(crate) curve: Curve,
    pub(crate) levels: Levels,
    pub(crate) watch: Watch,
}

impl Memory {
    /// Lets time pass and takes in what the sample tells.
    pub(crate) fn observe(&mut self, policy: &Policy, sample: &Sample) {
        let elapsed = match self.at {
            Some(at) => sample.at.saturating_sub(at),
            None => Duration::ZERO,
        };
        self.at = Some(sample.at);
        match sample.sight {
            Sight::None => return,
            Sight::Partial => {}
            Sight::Whole => self.seen += elapsed,
        }
        self.arrivals.observe(policy.window, sample);
        self.curve.observe(sample);
    }

    /// Meets the replicas that are asked for, and notes whether anything happens.
    pub(crate) fn meet(&mut self, sample: &Sample) {
        let met = self.levels.meet(sample.fleet.wanted, self.seen);
        if met == Met::More || sample.is_active() {
            self.active = self.seen;
        }
    }

    /// For how long nothing happened.
    pub(crate) fn idle(&self) -> Duration {
        self.seen.saturating_sub(self.active)
    }

    /// What the next revision of the same service may start from: what a replica does, not what came.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self {
            curve: self.curve.clone(),
            ..Self::default()
        }
    }
}

//! State of a revision between two decisions.

mod arrivals;
mod curve;
mod last_needed;
mod lateness;

use std::time::Duration;

pub(crate) use arrivals::Arrivals;
pub(crate) use curve::Curve;
pub(crate) use last_needed::LastNeeded;
pub(crate) use lateness::Lateness;

use weir_cluster::ScalingPolicy;

use crate::{Coverage, Sample};

/// State of a revision between two decisions. The default remembers nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// The last sample's time; unset before the first.
    at: Option<Duration>,
    /// Time in which every gateway reported: idleness is measured by it, so that it does not pass while
    /// gateways are silent.
    pub(crate) seen: Duration,
    /// When, by that time, something last happened.
    active: Duration,
    pub(crate) arrivals: Arrivals,
    pub(crate) curve: Curve,
    pub(crate) last_needed: LastNeeded,
    pub(crate) lateness: Lateness,
}

impl Memory {
    /// Advances the time and takes in the load of the sample.
    pub(crate) fn observe(&mut self, policy: &ScalingPolicy, sample: &Sample) {
        let elapsed = match self.at {
            Some(at) => sample.at.saturating_sub(at),
            None => Duration::ZERO,
        };
        self.at = Some(sample.at);
        match sample.coverage {
            Coverage::None => return,
            Coverage::Partial => {}
            Coverage::Complete => self.seen += elapsed,
        }
        self.arrivals.observe(policy.window, sample);
        self.curve.observe(sample);
    }

    /// Notes the time if there is work, or if more replicas were asked for elsewhere.
    pub(crate) fn note_activity(&mut self, sample: &Sample) {
        let desired = sample.replicas.desired;
        let is_raised = self.last_needed.is_raised_elsewhere(desired);
        self.last_needed.adopt(desired, self.seen);
        if is_raised || sample.is_active() {
            self.active = self.seen;
        }
    }

    /// How long nothing has happened.
    pub(crate) fn idle(&self) -> Duration {
        self.seen.saturating_sub(self.active)
    }

    /// The memory that the next revision of the same service starts with: what a replica does, not what came.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self {
            curve: self.curve.clone(),
            ..Self::default()
        }
    }
}

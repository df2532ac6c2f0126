//! State of a revision between two decisions.

mod arrivals;
mod changes;
mod curve;
mod gaps;
mod growth;
mod headroom;
mod levels;
mod peak;
mod rhythm;
mod seasons;
mod sharing;
pub(crate) mod start_worth;

use std::time::Duration;

pub(crate) use arrivals::{Arrivals, Estimate};
pub(crate) use changes::Changes;
pub(crate) use curve::Curve;
pub(crate) use growth::Growth;
pub(crate) use headroom::{Headroom, HeadroomSample};
pub(crate) use levels::{Level, Levels};
pub(crate) use peak::Peak;
pub(crate) use seasons::Seasons;
pub(crate) use sharing::Sharing;
pub use sharing::Throughput;
pub(crate) use start_worth::{StartSample, StartWorth};

use weir_cluster::ScalingPolicy;

use crate::{Coverage, Sample};

/// Share of the allowed late requests that the law plans for. The rest is left for the first start and for changes of
/// the load's pattern.
const AIMED: f64 = 1.0 / 3.0;

/// State of a revision between two decisions. The default is that of a new revision.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// Time of the last sample; `None` before the first.
    at: Option<Duration>,
    /// Time in which every gateway reported. Idleness is measured in it, so that no idle time passes while gateways are
    /// silent.
    pub(crate) seen: Duration,
    /// The value of `seen` at the last activity.
    active: Duration,
    pub(crate) arrivals: Arrivals,
    pub(crate) curve: Curve,
    pub(crate) growth: Growth,
    pub(crate) peak: Peak,
    pub(crate) levels: Levels,
    pub(crate) seasons: Seasons,
    pub(crate) sharing: Sharing,
    /// True if enough replicas were ready at the last decision, and the queue has recovered from the last shortage.
    pub(crate) is_enough: bool,
    /// True if `is_enough` held at least once while a replica was ready.
    has_settled: bool,
    pub(crate) start_worth: StartWorth,
    pub(crate) headroom: Headroom,
    pub(crate) lateness: Lateness,
    pub(crate) changes: Changes,
}

impl Memory {
    /// Advances the time and records the load of the sample.
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
        self.seasons.observe(sample);
        let credits = self.curve.credits(sample.replicas.credits);
        self.sharing.observe(self.seen, sample, credits);
        let cold_start = sample.replicas.cold_start;
        let Estimate { mean, rate, .. } = self.arrivals.latest();
        self.growth.observe(self.seen, mean, cold_start);
        self.peak.observe(elapsed, rate, cold_start);
        self.learn(policy, sample, elapsed);
    }

    /// Learns from late requests. While enough replicas were ready, late requests mean that more headroom is needed;
    /// while too few were, that a start is worth more than its own time. Nothing is learned while starts are overdue,
    /// because more replicas would not help, and before the first replica was ready, because requests that wait for it
    /// say nothing about later ones.
    fn learn(&mut self, policy: &ScalingPolicy, sample: &Sample, elapsed: Duration) {
        self.has_settled |= self.is_enough && sample.replicas.ready > 0;
        if sample.replicas.is_overdue() || !self.has_settled {
            return;
        }
        let (requests, late) = sample.load.lateness(policy.queue_delay);
        let (roomless, cold) = if self.is_enough { (late, 0) } else { (0, late) };
        let cold_start = sample.replicas.cold_start;
        let allowed = (1.0 - policy.quantile) * AIMED;
        self.start_worth.observe(
            elapsed,
            &StartSample {
                requests,
                late: cold,
                allowed,
                cold_start,
                first: start_worth::starts(policy.economy),
                most: start_worth::most_starts(policy.economy, cold_start),
            },
        );
        self.headroom.observe(&HeadroomSample { elapsed, requests, late: roomless, allowed, cold_start });
    }

    /// Records the time of the activity if there is work, or if something else raised the number of replicas.
    pub(crate) fn note_activity(&mut self, sample: &Sample) {
        let desired = sample.replicas.desired;
        let is_raised = self.levels.is_raised_elsewhere(desired);
        self.levels.adopt(desired, self.seen);
        if is_raised || sample.is_active() {
            self.active = self.seen;
        }
    }

    /// Returns the time since the last activity.
    pub(crate) fn idle(&self) -> Duration {
        self.seen.saturating_sub(self.active)
    }

    /// Returns the memory with which the next revision of the service starts. It keeps the service curve and the load
    /// by time of day, but not the latest arrivals.
    #[must_use]
    pub fn successor(&self) -> Self {
        Self { curve: self.curve.successor(), seasons: self.seasons.successor(), ..Self::default() }
    }
}

/// Time since when the queue has been over its target with all calculated replicas ready.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Lateness {
    since: Option<Duration>,
}

impl Lateness {
    /// Records that the queue is late, and returns for how long it has been.
    pub(crate) fn lasts(&mut self, now: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        now.saturating_sub(since)
    }

    /// Records that the queue is not late, or that a replica was added because of it.
    pub(crate) fn reset(&mut self) {
        self.since = None;
    }
}

//! How long a replica that is not needed is kept.

use std::time::Duration;

use weir_cluster::ScalingPolicy;

use crate::Memory;
use crate::economy::{longest, starts};
use crate::memory::Level;

/// Least time that the last replica is kept where the policy sets none and a request would wait for a start: a
/// person who tries a service by hand comes back within a minute.
const LAST_KEPT: Duration = Duration::from_secs(60);

/// The longest that a replica is kept while it is not known how long gaps are, however much a start is worth, in
/// lengths of a start.
const UNTOLD: f64 = 5.0;

/// The least time for which a replica is kept, in lengths of a start.
const LEAST: f64 = 0.25;

/// The least time for which a replica is kept, however fast starts are. Samples are a second apart, and a report may be
/// lost: what was not needed for less than that is no gap.
const UNSURE: Duration = Duration::from_millis(2500);

/// The rule by which replicas are kept at one decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep<'a> {
    policy: &'a ScalingPolicy,
    cold_start: Duration,
    /// What a start is worth, in its own length.
    starts: f64,
}

impl<'a> Keep<'a> {
    pub(super) fn new(policy: &'a ScalingPolicy, memory: &Memory, cold_start: Duration) -> Self {
        let starts = memory.price.starts(starts(policy.economy));
        Self { policy, cold_start, starts }
    }

    /// How long this replica (1 is the first) is kept after it was last needed. What the policy sets holds;
    /// otherwise the time for which it would have paid to keep it in the gaps before.
    pub(super) fn time(&self, level: u32, past: &Level) -> Duration {
        let pays = self.pays(past).max(self.least());
        match (level, self.policy.retention) {
            (1, Some(retention)) => retention,
            (1, None) if self.fits() => pays,
            (1, None) => pays.max(LAST_KEPT),
            _ => pays.max(self.policy.scale_down_delay),
        }
    }

    /// The least time for which any replica is kept: a load about the boundary of two numbers would end each start
    /// before it has ended by itself.
    pub(super) fn least(&self) -> Duration {
        self.cold_start.mul_f64(LEAST).max(UNSURE)
    }

    /// Whether a request that waits for a start is still in time.
    fn fits(&self) -> bool {
        self.cold_start <= self.policy.queue_delay
    }

    fn pays(&self, past: &Level) -> Duration {
        if self.fits() || past.is_regular(self.cold_start) {
            // No request waits for a start that is in time, or is ahead of it.
            return past.gaps().keep(self.cold_start, self.cold_start);
        }
        // While a replica is needed for less time than a start takes, fewer requests wait for it.
        let needed = past.needed().as_secs_f64() / self.cold_start.as_secs_f64();
        let worth = self.worth(1.0 + (self.starts - 1.0) * needed.min(1.0));
        // Within the window in which arrivals are counted, that fewer would do may be noise.
        let first = self.worth(starts(self.policy.economy));
        let first = first.max(self.policy.window).max(worth.min(self.worth(UNTOLD)));
        past.gaps().keep(worth, first)
    }

    fn worth(&self, starts: f64) -> Duration {
        let worth = self.cold_start.mul_f64(starts);
        worth.min(longest(self.policy.economy))
    }
}

//! Computes how long an unneeded replica is kept.

use std::time::Duration;

use weir_cluster::ScalingPolicy;

use crate::Memory;
use crate::memory::Level;
use crate::memory::start_worth::{longest, starts};

/// Least time that the last replica is kept if the policy sets no retention and a cold start takes longer than the
/// queue-delay target. A person who tries a service by hand returns within a minute.
const LAST_KEPT: Duration = Duration::from_secs(60);

/// Longest time that a replica is kept while the lengths of its gaps are unknown, as a multiple of the cold-start time,
/// whatever avoiding a start is worth.
const UNKNOWN_GAPS: f64 = 5.0;

/// Least time that a replica is kept, as a multiple of the cold-start time.
const LEAST_STARTS: f64 = 0.25;

/// Least time that a replica is kept, however fast starts are. Samples are a second apart and a report may be lost, so
/// a shorter time without need is not a gap.
const LEAST_TIME: Duration = Duration::from_millis(2500);

/// Rule by which replicas are kept, for one decision.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keep<'a> {
    policy: &'a ScalingPolicy,
    cold_start: Duration,
    /// Worth of avoiding a cold start, as a multiple of the cold-start time.
    starts: f64,
    /// Least time for which any replica is kept.
    least: Duration,
}

impl<'a> Keep<'a> {
    pub(super) fn new(policy: &'a ScalingPolicy, memory: &Memory, cold_start: Duration) -> Self {
        let starts = memory.start_worth.starts(starts(policy.economy));
        let least = cold_start.mul_f64(LEAST_STARTS).max(LEAST_TIME);
        Self { policy, cold_start, starts, least }
    }

    /// Returns how long a replica (level 1 is the first) is kept after it was last needed. A time in the policy takes
    /// precedence; otherwise it is the time that would have been cheapest over the past gaps.
    pub(super) fn time(&self, level: u32, past: &Level) -> Duration {
        let pays = self.pays(past).max(self.least);
        match (level, self.policy.retention) {
            (1, Some(retention)) => retention,
            (1, None) if self.fits() => pays,
            (1, None) => pays.max(LAST_KEPT),
            _ => pays.max(self.policy.scale_down_delay),
        }
    }

    /// Returns the least time for which any replica is kept. Without it, a load near the boundary between two numbers
    /// would stop each replica before its start has ended.
    pub(super) fn least(&self) -> Duration {
        self.least
    }

    /// Returns true if a request that waits for a start still meets the target.
    fn fits(&self) -> bool {
        self.cold_start <= self.policy.queue_delay
    }

    fn pays(&self, past: &Level) -> Duration {
        if self.fits() || past.is_regular(self.cold_start) {
            // Requests do not suffer from a start that is fast enough, or that begins ahead of them at regular
            // intervals.
            return past.gaps().keep(self.cold_start).unwrap_or(self.cold_start);
        }
        // If a replica is needed for less time than a start takes, fewer requests wait for it, so its start is worth
        // less.
        let needed = past.needed().as_secs_f64() / self.cold_start.as_secs_f64();
        let worth = self.worth(1.0 + (self.starts - 1.0) * needed.min(1.0));
        past.gaps().keep(worth).unwrap_or_else(|| self.first(worth))
    }

    /// Returns the time for a replica whose gaps are unknown. A lower number that lasts for less than the arrival window
    /// may be noise, so it is at least that window.
    fn first(&self, worth: Duration) -> Duration {
        let first = self.worth(starts(self.policy.economy));
        first.max(self.policy.window).max(worth.min(self.worth(UNKNOWN_GAPS)))
    }

    fn worth(&self, starts: f64) -> Duration {
        let worth = self.cold_start.mul_f64(starts);
        worth.min(longest(self.policy.economy))
    }
}

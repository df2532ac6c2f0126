//! How long a replica that is not needed is kept.

use std::time::Duration;

use weir_cluster::{Economy, ScalingPolicy};

use crate::Memory;
use crate::memory::Level;

/// Least time that the last replica is kept where the policy sets none and a request would wait for a start: a
/// person who tries a service by hand comes back within a minute.
const LAST_KEPT: Duration = Duration::from_secs(60);

/// The longest that a replica is kept while it is not known how long gaps are, however much a start is worth, in
/// lengths of a start.
const UNTOLD: f64 = 10.0;

/// The least time for which a replica is kept, in lengths of a start.
const LEAST: f64 = 0.25;

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
        Self {
            policy,
            cold_start,
            starts,
        }
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
        self.cold_start.mul_f64(LEAST)
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
        let first = first
            .max(self.policy.window)
            .max(worth.min(self.worth(UNTOLD)));
        past.gaps().keep(worth, first)
    }

    fn worth(&self, starts: f64) -> Duration {
        let worth = self.cold_start.mul_f64(starts);
        worth.min(longest(self.policy.economy))
    }
}

/// What a start is worth before it is known how often requests wait for one, in lengths of a start. Once is
/// break-even: at worst twice the cost of knowing the future, when only its own time counts. The rest is for
/// requests that would wait for the start.
pub(crate) fn starts(economy: Economy) -> f64 {
    match economy {
        Economy::Economy => 1.0,
        Economy::Balanced => 3.0,
        Economy::Latency => 10.0,
    }
}

/// The most that a start may be worth, in lengths of a start: so much that a replica which is needed for a third of a
/// start at a time is kept as long as any may be.
pub(crate) fn most_starts(economy: Economy, cold_start: Duration) -> f64 {
    3.0 * longest(economy).as_secs_f64() / cold_start.as_secs_f64().max(1.0)
}

/// The longest that a replica is kept idle, however long it takes to start.
fn longest(economy: Economy) -> Duration {
    match economy {
        Economy::Economy => Duration::from_secs(5 * 60),
        Economy::Balanced => Duration::from_secs(30 * 60),
        Economy::Latency => Duration::from_secs(4 * 60 * 60),
    }
}

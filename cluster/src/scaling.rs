//! Bounds and targets of a revision's replicas.

mod behavior;
mod other;

use std::num::NonZeroU32;
use std::time::Duration;

pub use behavior::{MostChange, PolicySelect, RatePolicy, ScalingBehavior, ScalingRules};
pub use other::{OtherAutoscaler, WrittenNumber};

/// Bounds and targets of one revision's replicas. Whoever plans the revision writes them, and the autoscaler reads
/// them in the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingPolicy {
    /// Fewest replicas; 0 lets the revision sleep. A controller raises it for a revision that must stay up, such as
    /// the stable one while another is rolled out.
    pub min: u32,
    /// Most replicas; unset sets no limit but [`ScalingPolicy::MOST`]. Where it is below `min`, `min` holds: 0 leaves the
    /// number at `min`, and no request wakes the revision.
    pub max: Option<u32>,
    /// Longest time that requests should wait for a replica.
    pub queue_delay: Duration,
    /// The share of requests, 0 to 1, for which `queue_delay` should hold.
    pub quantile: f64,
    /// How much idle time may be spent to avoid cold starts.
    pub economy: Economy,
    /// A cap on the load assumed per replica, beside what one was measured to do.
    pub target: Option<ScaleTarget>,
    /// Idle time before the last replica ends; unset leaves it to the control law.
    pub retention: Option<Duration>,
    /// Least time that every other replica is kept after it was last needed.
    pub scale_down_delay: Duration,
    /// Time over which arrivals are averaged.
    pub window: Duration,
    /// Replicas to start with when a request comes at zero.
    pub activation: NonZeroU32,
    /// How fast replicas may be added and removed.
    pub behavior: ScalingBehavior,
}

/// A cap on the load assumed per replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleTarget {
    /// Most requests in flight per replica.
    Concurrency(f64),
    /// Most requests per second per replica.
    Rps(f64),
}

/// How much idle time may be spent to avoid cold starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Economy {
    /// As little as pays for itself.
    Economy,
    /// A few times the length of a start.
    #[default]
    Balanced,
    /// As much as helps.
    Latency,
}

impl ScalingPolicy {
    /// The most replicas of one revision, whatever its policy allows: more are a mistake.
    pub const MOST: u32 = 10_000;

    /// Default of [`Self::window`]: long enough to count the arrivals of a service that has one each few seconds, and
    /// the field's usual value.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// The number of replicas within the bounds that is closest to this one.
    #[must_use]
    pub fn bound(&self, replicas: u32) -> u32 {
        let min = self.min.min(Self::MOST);
        replicas.clamp(min, self.most().max(min))
    }

    /// The most replicas that the bounds allow.
    #[must_use]
    pub fn most(&self) -> u32 {
        let max = self.max.unwrap_or(Self::MOST);
        max.max(self.min).min(Self::MOST)
    }
}

impl Default for ScalingPolicy {
    fn default() -> Self {
        Self {
            min: 1,
            max: None,
            queue_delay: Duration::from_secs(1),
            quantile: 0.99,
            economy: Economy::default(),
            target: None,
            retention: None,
            scale_down_delay: Duration::ZERO,
            window: Self::WINDOW,
            activation: NonZeroU32::MIN,
            behavior: ScalingBehavior::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_goes_before_the_maximum() {
        let policy = ScalingPolicy { min: 5, max: Some(3), ..ScalingPolicy::default() };
        assert_eq!((policy.bound(0), policy.bound(9)), (5, 5));
    }

    #[test]
    fn a_maximum_of_zero_leaves_the_number_at_the_minimum() {
        let of = |min| ScalingPolicy { min, max: Some(0), ..ScalingPolicy::default() };
        assert_eq!((of(0).bound(7), of(3).bound(0), of(3).bound(7)), (0, 3, 3));
    }
}

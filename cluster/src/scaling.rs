//! Bounds and targets for the number of a revision's replicas.

mod behavior;
mod other;

use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

use crate::{ClusterError, RevisionName};

pub use behavior::{ChangeLimit, PolicySelect, RatePolicy, ScalingBehavior, ScalingRules};
pub use other::{OtherAutoscaler, ReplicasField};

/// Bounds and targets for the number of one revision's replicas. The component that plans the revision writes them, and
/// the autoscaler reads them in the snapshot.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingPolicy {
    /// Minimum number of replicas; 0 lets the revision scale to zero. A controller raises it for a revision that must
    /// stay up, such as the stable one during a rollout.
    pub min: u32,
    /// Maximum number of replicas; `None` sets no limit but [`ScalingPolicy::MOST`]. If it is below `min`, `min` takes
    /// precedence. With 0, the number stays at `min`, and no request wakes the revision.
    pub max: Option<u32>,
    /// Target for the time that requests wait for a replica.
    pub queue_delay: Duration,
    /// Share of requests, 0 to 1, for which `queue_delay` should hold.
    pub quantile: f64,
    /// Amount of idle time spent to avoid cold starts.
    pub economy: Economy,
    /// Cap on the load assumed per replica; `None` relies on the measured capacity alone.
    pub target: Option<ScaleTarget>,
    /// Idle time before the last replica ends; `None` leaves it to the control law.
    pub retention: Option<Duration>,
    /// Minimum time that every replica but the last is kept after it was last needed.
    pub scale_down_delay: Duration,
    /// Time over which the arrival rate is averaged.
    pub window: Duration,
    /// Number of replicas to start when a request arrives at zero replicas.
    pub activation: NonZeroU32,
    /// Bounds on how fast replicas are added and removed.
    pub behavior: ScalingBehavior,
}

/// Cap on the load assumed per replica.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ScaleTarget {
    /// Maximum number of requests in flight per replica.
    Concurrency(f64),
    /// Maximum number of requests per second per replica.
    Rps(f64),
}

/// Amount of idle time spent to avoid cold starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Economy {
    /// Keeps an idle replica about as long as one cold start takes.
    Economy,
    /// Keeps an idle replica a few times as long as a cold start takes.
    #[default]
    Balanced,
    /// Keeps an idle replica ten times as long as a cold start takes, to minimise waiting.
    Latency,
}

impl ScalingPolicy {
    /// Maximum number of replicas of any revision, whatever its policy says: a larger number is a mistake.
    pub const MOST: u32 = 10_000;

    /// Default of [`Self::window`]: long enough to measure the arrivals of a service with one request every few
    /// seconds, and the usual value in other autoscalers.
    pub const WINDOW: Duration = Duration::from_secs(60);

    /// Returns the number of replicas within the bounds that is closest to `replicas`.
    #[must_use]
    pub fn bound(&self, replicas: u32) -> u32 {
        let min = self.min.min(Self::MOST);
        replicas.clamp(min, self.most().max(min))
    }

    /// Returns the maximum number of replicas within the bounds.
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

/// Sets the number of replicas. Used by the autoscaler, the only component that changes the number once a revision
/// exists.
#[async_trait]
pub trait Scale: Send + Sync {
    /// Requests this many replicas. Returns once the number is recorded, not once the replicas are ready.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`] when there is no such revision, [`ClusterError::Unavailable`] when the cluster
    /// does not respond.
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_minimum_takes_precedence_over_the_maximum() {
        let policy = ScalingPolicy { min: 5, max: Some(3), ..ScalingPolicy::default() };
        assert_eq!((policy.bound(0), policy.bound(9)), (5, 5));
    }

    #[test]
    fn a_maximum_of_zero_leaves_the_number_at_the_minimum() {
        let of = |min| ScalingPolicy { min, max: Some(0), ..ScalingPolicy::default() };
        assert_eq!((of(0).bound(7), of(3).bound(0), of(3).bound(7)), (0, 3, 3));
    }
}

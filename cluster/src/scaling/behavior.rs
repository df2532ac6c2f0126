//! Bounds on how fast replicas are added and removed.

use std::time::Duration;

/// Bounds on how fast replicas are added and removed, with the meaning of a HorizontalPodAutoscaler's `behavior`
/// (`autoscaling/v2`). The default bounds nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingBehavior {
    /// Rules for adding replicas; unset bounds nothing.
    pub up: Option<ScalingRules>,
    /// Rules for removing replicas; unset bounds nothing.
    pub down: Option<ScalingRules>,
}

/// Rules for one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingRules {
    /// Time back over which the least change that was wanted counts.
    pub window: Duration,
    /// Limits on the change within a period; at least one.
    pub policies: Vec<RatePolicy>,
    /// The limit that counts among several.
    pub select: PolicySelect,
    /// The share of the replicas that a change must exceed; 0 lets every change pass.
    pub tolerance: f64,
}

/// A limit on the change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatePolicy {
    /// The most that may change.
    pub most: MostChange,
    /// The period in which it may.
    pub period: Duration,
}

/// The most that may change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MostChange {
    /// Replicas, counted one by one.
    Pods(u32),
    /// So many percent of the replicas at the period's beginning.
    Percent(u32),
}

/// The limit that counts among several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySelect {
    /// The one that allows the most change.
    Max,
    /// The one that allows the least change.
    Min,
    /// None: nothing changes in this direction.
    Disabled,
}

impl ScalingBehavior {
    /// Whether it bounds nothing.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.up.is_none() && self.down.is_none()
    }
}

impl ScalingRules {
    /// The longest window, as the Kubernetes API has it.
    pub const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

    /// The longest period of a policy, as the Kubernetes API has it.
    pub const LONGEST_PERIOD: Duration = Duration::from_secs(1800);

    /// What Kubernetes takes for rules that say nothing about adding: at once, by four or twice as many in 15 s.
    #[must_use]
    pub fn default_up() -> Self {
        Self {
            window: Duration::ZERO,
            policies: vec![RatePolicy::each_15s(MostChange::Pods(4)), RatePolicy::each_15s(MostChange::Percent(100))],
            select: PolicySelect::Max,
            tolerance: 0.0,
        }
    }

    /// What Kubernetes takes for rules that say nothing about removing: what was not wanted for 5 minutes, all of it.
    #[must_use]
    pub fn default_down() -> Self {
        Self {
            window: Duration::from_secs(300),
            policies: vec![RatePolicy::each_15s(MostChange::Percent(100))],
            select: PolicySelect::Max,
            tolerance: 0.0,
        }
    }
}

impl RatePolicy {
    const fn each_15s(most: MostChange) -> Self {
        Self { most, period: Duration::from_secs(15) }
    }
}

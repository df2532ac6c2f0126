//! Bounds on how fast replicas are added and removed.

use std::time::Duration;

/// Bounds on how fast replicas are added and removed, with the meaning of a HorizontalPodAutoscaler's `behavior`
/// (`autoscaling/v2`). The default bounds nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingBehavior {
    /// Rules for adding replicas; `None` sets no bound.
    pub up: Option<ScalingRules>,
    /// Rules for removing replicas; `None` sets no bound.
    pub down: Option<ScalingRules>,
}

/// Rules for one direction, adding or removing.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalingRules {
    /// Stabilisation window: the smallest change wanted within this time applies.
    pub window: Duration,
    /// Limits on the change within a period; at least one entry.
    pub policies: Vec<RatePolicy>,
    /// Choice of the limit that applies if there are several.
    pub select: PolicySelect,
    /// Share of the current replicas that a change must exceed to be made; 0 lets every change pass.
    pub tolerance: f64,
}

/// A limit on the change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RatePolicy {
    /// Maximum change within the period.
    pub most: ChangeLimit,
    /// Length of the period that the limit applies to.
    pub period: Duration,
}

/// Maximum change within a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeLimit {
    /// An absolute number of replicas.
    Pods(u32),
    /// A percentage of the replicas at the beginning of the period.
    Percent(u32),
}

/// Choice of the limit that applies if there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicySelect {
    /// The limit that allows the largest change applies.
    Max,
    /// The limit that allows the smallest change applies.
    Min,
    /// The number never changes in this direction.
    Disabled,
}

impl ScalingBehavior {
    /// Returns true if there are no rules for either direction.
    #[must_use]
    pub fn is_unbounded(&self) -> bool {
        self.up.is_none() && self.down.is_none()
    }
}

impl ScalingRules {
    /// Longest window that the Kubernetes API accepts.
    pub const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

    /// Longest period of a policy that the Kubernetes API accepts.
    pub const LONGEST_PERIOD: Duration = Duration::from_secs(1800);

    /// Returns the rules that Kubernetes applies for adding replicas by default: no stabilisation window, and at most 4
    /// replicas or 100 % in 15 s, whichever is more.
    #[must_use]
    pub fn default_up() -> Self {
        Self {
            window: Duration::ZERO,
            policies: vec![RatePolicy::each_15s(ChangeLimit::Pods(4)), RatePolicy::each_15s(ChangeLimit::Percent(100))],
            select: PolicySelect::Max,
            tolerance: 0.0,
        }
    }

    /// Returns the rules that Kubernetes applies for removing replicas by default: a stabilisation window of 5 minutes,
    /// then all surplus replicas at once.
    #[must_use]
    pub fn default_down() -> Self {
        Self {
            window: Duration::from_secs(300),
            policies: vec![RatePolicy::each_15s(ChangeLimit::Percent(100))],
            select: PolicySelect::Max,
            tolerance: 0.0,
        }
    }
}

impl RatePolicy {
    const fn each_15s(most: ChangeLimit) -> Self {
        Self { most, period: Duration::from_secs(15) }
    }
}

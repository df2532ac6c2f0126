//! The scaling that a component declares.

use std::num::NonZeroU32;

use weir_cluster::ScalingPolicy;

/// The scaling that a component declares, before a rollout raises or lowers its minimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Bounds and targets for the autoscaler.
    pub policy: ScalingPolicy,
    /// Who sets the number of replicas.
    pub by: ScaledBy,
    /// Replicas when the revision is made, at least.
    pub initial: u32,
}

/// Who sets the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledBy {
    /// Weir's autoscaler sets it.
    Weir,
    /// Somebody else sets it, or nobody.
    Others,
}

impl Default for Scaling {
    fn default() -> Self {
        Self {
            policy: ScalingPolicy::default(),
            by: ScaledBy::Weir,
            initial: 1,
        }
    }
}

impl Scaling {
    /// The same with this minimum.
    #[must_use]
    pub fn with_min(&self, min: u32) -> Self {
        let policy = ScalingPolicy {
            min,
            ..self.policy.clone()
        };
        Self { policy, ..*self }
    }

    /// The same with at least so many replicas, as far as its own maximum lets it.
    #[must_use]
    pub fn with_floor(&self, replicas: u32) -> Self {
        let floor = self.policy.min.max(replicas);
        let max = self.policy.max.map(NonZeroU32::get);
        self.with_min(max.map_or(floor, |max| floor.min(max)))
    }

    /// Replicas of a revision that is new: at least one, because only loading shows that it loads.
    #[must_use]
    pub fn at_creation(&self) -> u32 {
        let replicas = self.policy.min.max(self.initial).max(1);
        let max = self.policy.max.map(NonZeroU32::get);
        max.map_or(replicas, |max| replicas.min(max))
    }
}

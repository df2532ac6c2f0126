//! Scaling that a component declares.

use std::time::Duration;

use weir_cluster::ScalingPolicy;

/// Scaling that a component declares, before a rollout raises or lowers its minimum.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaling {
    /// Bounds and targets for the autoscaler.
    pub policy: ScalingPolicy,
    /// Autoscaler that sets the number of replicas.
    pub by: ScaledBy,
    /// Fewest replicas when the revision is created.
    pub initial: u32,
}

/// Autoscaler of a service, from KServe's `autoscalerClass`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledBy {
    /// Weir's own autoscaler sets the replicas.
    Weir,
    /// Another autoscaler, such as an HPA that scales the InferenceService, sets `minReplicas` and thus the replicas.
    MinReplicas,
    /// Another autoscaler sets the replicas of the Deployments.
    Others,
}

impl Default for Scaling {
    fn default() -> Self {
        Self { policy: ScalingPolicy::default(), by: ScaledBy::Weir, initial: 1 }
    }
}

impl Scaling {
    /// Returns the scaling with this minimum.
    #[must_use]
    pub fn with_min(&self, min: u32) -> Self {
        let policy = ScalingPolicy { min, ..self.policy.clone() };
        Self { policy, ..*self }
    }

    /// Raises the minimum to `replicas`, up to the maximum.
    #[must_use]
    pub fn with_floor(&self, replicas: u32) -> Self {
        let floor = self.policy.min.max(replicas);
        let max = self.policy.max;
        self.with_min(max.map_or(floor, |max| floor.min(max)))
    }

    /// Lowers the maximum to `most`, if that is set.
    #[must_use]
    pub fn with_most(&self, most: Option<u32>) -> Self {
        let max = self.policy.max.into_iter().chain(most).min();
        let policy = ScalingPolicy { max, ..self.policy.clone() };
        Self { policy, ..*self }
    }

    /// Limits the idle time before the last replica ends.
    #[must_use]
    pub fn with_retention(&self, longest: Duration) -> Self {
        let own = self.policy.retention;
        let policy =
            ScalingPolicy { retention: Some(own.map_or(longest, |own| own.min(longest))), ..self.policy.clone() };
        Self { policy, ..*self }
    }

    /// Returns the replicas of a new revision: at least one, because only a running replica shows whether the model
    /// loads.
    #[must_use]
    pub fn at_creation(&self) -> u32 {
        let replicas = self.policy.min.max(self.initial).max(1);
        let max = self.policy.max;
        max.map_or(replicas, |max| replicas.min(max))
    }
}

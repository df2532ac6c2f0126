//! Autoscalers of others that set the replicas of a revision.

use std::sync::Arc;

use super::ScalingPolicy;

/// Autoscaler of others that sets the replicas of a revision: Weir's own never sets what it sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherAutoscaler {
    /// Kind and name, such as `HorizontalPodAutoscaler digits`.
    pub name: Arc<str>,
    /// Place of the number that it writes.
    pub writes: WrittenNumber,
}

/// Place of the number of replicas that an autoscaler writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenNumber {
    /// The service's `minReplicas`, by its scale subresource.
    MinReplicas,
    /// The `replicas` of one revision's Deployment.
    Replicas,
}

impl OtherAutoscaler {
    /// What it leaves of a policy for Weir's autoscaler: `minReplicas` and no other number, or nothing.
    #[must_use]
    pub fn restrict(&self, policy: ScalingPolicy) -> Option<ScalingPolicy> {
        match self.writes {
            WrittenNumber::MinReplicas => Some(ScalingPolicy { max: Some(policy.min), ..policy }),
            WrittenNumber::Replicas => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weir_keeps_to_the_number_that_another_writes_and_leaves_what_it_sets() {
        let policy = ScalingPolicy { min: 3, max: Some(20), ..ScalingPolicy::default() };
        let other = |writes| OtherAutoscaler { name: "HorizontalPodAutoscaler digits".into(), writes };
        let kept = other(WrittenNumber::MinReplicas).restrict(policy.clone());
        let kept = kept.unwrap();
        assert_eq!((kept.bound(0), kept.bound(9)), (3, 3));
        assert_eq!(other(WrittenNumber::Replicas).restrict(policy), None);
    }
}

//! Third-party autoscalers that set a revision's number of replicas.

use std::sync::Arc;

use super::ScalingPolicy;

/// A third-party autoscaler, such as a HorizontalPodAutoscaler or KEDA, that sets a revision's number of replicas.
/// Weir's own autoscaler never changes that number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherAutoscaler {
    /// Kind and name, such as `HorizontalPodAutoscaler digits`.
    pub name: Arc<str>,
    /// The number that the autoscaler writes.
    pub writes: ReplicasField,
}

/// The field in which an autoscaler writes the number of replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplicasField {
    /// `minReplicas` of the InferenceService, written by its scale subresource.
    MinReplicas,
    /// `replicas` of one revision's Deployment.
    Replicas,
}

impl OtherAutoscaler {
    /// Returns the part of a policy that remains for Weir's autoscaler. It keeps the number at `minReplicas` if the
    /// other autoscaler writes that field; `None` if the other one scales the Deployment itself.
    #[must_use]
    pub fn restrict(&self, policy: ScalingPolicy) -> Option<ScalingPolicy> {
        match self.writes {
            ReplicasField::MinReplicas => Some(ScalingPolicy { max: Some(policy.min), ..policy }),
            ReplicasField::Replicas => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weir_follows_min_replicas_and_leaves_deployments_to_the_other_autoscaler() {
        let policy = ScalingPolicy { min: 3, max: Some(20), ..ScalingPolicy::default() };
        let other = |writes| OtherAutoscaler { name: "HorizontalPodAutoscaler digits".into(), writes };
        let kept = other(ReplicasField::MinReplicas).restrict(policy.clone());
        let kept = kept.unwrap();
        assert_eq!((kept.bound(0), kept.bound(9)), (3, 3));
        assert_eq!(other(ReplicasField::Replicas).restrict(policy), None);
    }
}

//! Desired replicas that cannot start.

use std::fmt;
use std::sync::Arc;

use weir_cluster::{FailureReason, Phase, Replica, Revision};

/// Desired replicas that cannot start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unplaced {
    /// Number of such replicas, at least one.
    pub replicas: u32,
    /// Reason that they cannot start, and what to do.
    pub cause: Arc<str>,
}

impl Unplaced {
    /// Returns the replicas of a revision that cannot start, if the reason is known.
    pub(crate) fn of(revision: &Revision) -> Option<Self> {
        let cause = revision.unplaced.as_ref()?.message.clone();
        let coming = revision.replicas.iter().filter(|r| r.phase.is_counted() && !is_unplaced(r));
        let coming = u32::try_from(coming.count()).unwrap_or(u32::MAX);
        let replicas = revision.desired.saturating_sub(coming);
        (replicas > 0).then_some(Self { replicas, cause })
    }
}

fn is_unplaced(replica: &Replica) -> bool {
    let failure = replica.failure.as_ref();
    let is_unstarted = matches!(replica.phase, Phase::Pending | Phase::BackOff);
    is_unstarted && failure.is_some_and(|failure| failure.reason == FailureReason::NotStarted)
}

impl fmt::Display for Unplaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, cause } = self;
        write!(f, "{replicas} of them cannot start: {cause}")
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodTemplateSpec;
    use weir_cluster::{Failure, ServiceName, Workload};

    use super::*;

    /// A revision with this number of desired replicas, some of them ready and some that no node takes.
    fn revision(desired: u32, ready: usize, pending: usize, cause: Option<&str>) -> Revision {
        let service = ServiceName::new("default", "digits").unwrap();
        let workload = Workload::new(service.revision(1).unwrap(), PodTemplateSpec::default(), 0);
        let failure = cause.map(|cause| Failure::new(FailureReason::NotStarted, cause));
        let replica = |index: usize| {
            let is_ready = index < ready;
            Replica {
                failure: failure.clone().filter(|_| !is_ready),
                ..Replica::new(index.to_string(), if is_ready { Phase::Ready } else { Phase::Pending })
            }
        };
        let mut revision = Revision::new(&workload, desired);
        revision.replicas = (0..ready + pending).map(replica).collect();
        revision.unplaced = failure;
        revision
    }

    #[test]
    fn replicas_without_a_node_and_replicas_not_created_count() {
        let full = Some("no node takes it: add a node");
        let several = Unplaced::of(&revision(4, 1, 2, full)).unwrap();
        assert_eq!(several.to_string(), "3 of them cannot start: no node takes it: add a node");
        let one = Unplaced::of(&revision(2, 1, 0, Some("raise the quota"))).unwrap();
        assert_eq!(one.to_string(), "1 of them cannot start: raise the quota");
    }

    #[test]
    fn starting_and_undesired_replicas_do_not_count() {
        assert_eq!(Unplaced::of(&revision(3, 1, 2, None)), None);
        assert_eq!(Unplaced::of(&revision(1, 1, 0, Some("old"))), None);
    }
}

//! Pods that no scheduler has processed. The status of such a pod does not show this, and no later event reports it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use weir_cluster::{Failure, FailureReason, Replica};

use super::{Phase, failure, status};

/// Time that a scheduler may take to process a new pod, in seconds. Each pod takes less than one second, and a restart
/// of the scheduler about ten.
const LATE: u64 = 30;

/// Name of the scheduler for pods that name none.
const DEFAULT: &str = "default-scheduler";

/// Pod that no scheduler has processed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Creation time of the pod, in seconds since 1970.
    created: u64,
    /// Scheduler that the pod names.
    scheduler: Arc<str>,
}

impl Unseen {
    /// Returns the pod's state if no scheduler has processed it yet.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let spec = pod.spec.as_ref()?;
        let conditions = status(pod).and_then(|status| status.conditions.as_ref());
        let mut conditions = conditions.into_iter().flatten();
        let is_seen = conditions.any(|condition| condition.type_ == "PodScheduled");
        let ends = pod.metadata.deletion_timestamp.is_some();
        let waits_for_others = failure::failure(pod).is_some();
        if spec.node_name.is_some() || is_seen || ends || waits_for_others {
            return None;
        }
        let created = pod.metadata.creation_timestamp.as_ref()?.0.as_second();
        Some(Self {
            created: u64::try_from(created).ok()?,
            scheduler: spec.scheduler_name.as_deref().unwrap_or(DEFAULT).into(),
        })
    }

    /// Returns the failure of the pod once its scheduler is overdue. `now` is in seconds since 1970.
    pub(crate) fn failure(&self, now: u64) -> Option<Failure> {
        let scheduler = &*self.scheduler;
        let message = if scheduler == DEFAULT {
            "no scheduler has looked at it: see that the cluster's kube-scheduler runs".to_owned()
        } else {
            format!(
                "no scheduler called {scheduler} has looked at it: install that scheduler, or correct schedulerName"
            )
        };
        (now >= self.created.saturating_add(LATE))
            .then(|| Failure { at: Some(self.created), ..Failure::new(FailureReason::NotStarted, message) })
    }

    /// Adds the failure to the replica of the pod while it is pending.
    pub(crate) fn with_failure(&self, mut replica: Replica, now: u64) -> Replica {
        if replica.phase == Phase::Pending {
            replica.failure = replica.failure.or_else(|| self.failure(now));
        }
        replica
    }
}

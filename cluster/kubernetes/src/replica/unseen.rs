//! Pods that no scheduler has looked at: nothing in their status says so, and no later event comes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use weir_cluster::{Failure, FailureReason, Replica};

use super::{Phase, failure, status};

/// Time that a scheduler may take until it has looked at a new pod, in seconds: it needs less than one for each, and a restart
/// of it some ten.
const LATE: u64 = 30;

/// The scheduler of pods that name none.
const DEFAULT: &str = "default-scheduler";

/// A pod that no scheduler has looked at yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unseen {
    /// Time at which the pod was made, in seconds since 1970.
    created: u64,
    /// Scheduler that the pod names.
    scheduler: Arc<str>,
}

impl Unseen {
    /// The scheduler that a pod waits for, if none has looked at it.
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

    /// The cause of a pod that does not start, once its scheduler should have looked at it. `now` is in seconds since 1970.
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

    /// The replica of the pod, with why it does not start.
    pub(crate) fn told(&self, mut replica: Replica, now: u64) -> Replica {
        if replica.phase == Phase::Pending {
            replica.failure = replica.failure.or_else(|| self.failure(now));
        }
        replica
    }
}

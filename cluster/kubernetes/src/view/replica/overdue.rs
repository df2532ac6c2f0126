//! Failures of pods that begin with time alone: the status of such a pod does not change, and no event reports them.

use k8s_openapi::api::core::v1::Pod;
use weir_cluster::{Failure, FailureReason, Replica};

use super::{failure, serving, status};

/// Time that a scheduler may take to process a new pod, in seconds. Each pod takes less than one second, and a restart
/// of the scheduler about ten.
const UNSCHEDULED: u64 = 30;

/// Time for which a pod that was ready may be unready, in seconds. A busy server may miss its probes for some seconds,
/// and requests wait meanwhile.
const UNREADY: u64 = 30;

/// Name of the scheduler for pods that name none.
const DEFAULT: &str = "default-scheduler";

/// Failure that a pod will have unless its status changes before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Overdue {
    /// Time from which the pod has failed, in seconds since 1970.
    from: u64,
    failure: Failure,
}

impl Overdue {
    /// Returns the failure of a pod that no scheduler has processed yet, or that was ready and is not any more. A pod
    /// that starts has none, however long its model loads.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let ends = pod.metadata.deletion_timestamp.is_some();
        if ends || failure::failure(pod).is_some() {
            return None;
        }
        unscheduled(pod).or_else(|| unready(pod))
    }

    /// Returns the failure if the pod has it by now. `now` is in seconds since 1970.
    pub(crate) fn failure(&self, now: u64) -> Option<&Failure> {
        (now >= self.from).then_some(&self.failure)
    }

    /// Adds the failure to the replica of the pod if the pod has it by now.
    pub(crate) fn with_failure(&self, mut replica: Replica, now: u64) -> Replica {
        if replica.phase.is_counted() {
            replica.failure = replica.failure.or_else(|| self.failure(now).cloned());
        }
        replica
    }
}

/// Returns the failure of a pod that no scheduler has processed yet.
fn unscheduled(pod: &Pod) -> Option<Overdue> {
    let spec = pod.spec.as_ref()?;
    let conditions = status(pod).and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    let is_seen = conditions.any(|condition| condition.type_ == "PodScheduled");
    if spec.node_name.is_some() || is_seen {
        return None;
    }
    let scheduler = spec.scheduler_name.as_deref().unwrap_or(DEFAULT);
    let message = if scheduler == DEFAULT {
        "no scheduler has looked at it: see that the cluster's kube-scheduler runs".to_owned()
    } else {
        format!("no scheduler called {scheduler} has looked at it: install that scheduler, or correct schedulerName")
    };
    let created = pod.metadata.creation_timestamp.as_ref().and_then(failure::seconds)?;
    Some(Overdue {
        from: created.saturating_add(UNSCHEDULED),
        failure: Failure { at: Some(created), ..Failure::new(FailureReason::NotStarted, message) },
    })
}

/// Returns the failure of a pod that runs, was ready and is not any more.
fn unready(pod: &Pod) -> Option<Overdue> {
    let ready = failure::no_longer_ready(pod, serving(pod)?)?;
    let time = ready.last_transition_time.as_ref()?;
    let cause = failure::in_parentheses(ready.message.as_deref().unwrap_or_default());
    let message =
        format!("it runs, and has not been ready since {}{cause}: see its log and its readinessProbe", time.0);
    let since = failure::seconds(time)?;
    Some(Overdue {
        from: since.saturating_add(UNREADY),
        failure: Failure { at: Some(since), ..Failure::new(FailureReason::NotReady, message) },
    })
}

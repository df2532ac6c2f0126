//! The revisions of a snapshot, from what the watches have shown.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_cluster::{Endpoints, Failure, FailureReason, Identity, Phase, Replica, Revision, RevisionName};

use super::facts::Written;
use super::{Observed, key_of};
use crate::options::WatchScope;
use crate::view::endpoints::Replicas;
use crate::view::{other_autoscalers, replica};
use crate::written::{WrittenFailures, WrittenRevision};

impl Observed {
    /// Returns a revision as its objects show it. A revision without a Service is ending, and stays until its last pod
    /// is gone.
    pub(super) fn revision(&self, name: &RevisionName, before: Option<&Revision>) -> Option<Revision> {
        let key = key_of(name);
        let replicas = self.replicas.get(name);
        let replicas = replicas.map(Replicas::to_vec).unwrap_or_default();
        let Some(Written::Revision(_, notes)) = self.services.get(&key) else {
            let ends = before.filter(|_| !replicas.is_empty())?;
            return Some(Revision { desired: 0, scaling: None, scaled_by: None, replicas, ..ends.clone() });
        };
        let (written, failures) = (&notes.workload, &notes.failures);
        if self.scope == WatchScope::Gateway {
            return Some(self.revision_of_gateway(name, written, failures, replicas));
        }
        let scaled = self.deployments.get(&key);
        // While the Deployment is being created or deleted, there is nothing to scale.
        let scalable = scaled.map(|_| written);
        let other = other_autoscalers::of_revision(self.autoscalers.values(), name);
        let unmade = scaled.and_then(|scaled| scaled.failure.clone());
        let is_late = scaled.is_some_and(|scaled| scaled.is_late);
        let late = replicas.iter().find(|one| is_late && is_bare(one));
        Some(Revision {
            name: name.clone(),
            identity: Identity::from_label(&written.identity),
            desired: scaled.map_or(0, |scaled| scaled.replicas),
            concurrency: written.concurrency,
            scaling: scalable.and_then(|written| written.left_by(other)).map(Arc::new),
            scaled_by: other.cloned(),
            gpus: scaled.map_or(0, |scaled| scaled.gpus),
            ready_call: written.ready_call(),
            transport: written.transport(),
            ignored_fields: Vec::new(),
            reported_outlook: None,
            unplaced: unplaced(&replicas, unmade.as_ref()),
            shared_gpus: self.shared_gpus(name),
            failure: failure(&replicas, unmade.or(late.map(not_set_up)), before),
            replicas,
        })
    }

    /// Returns the revision as a gateway sees it. A gateway does not watch pods, so the failures are those that the
    /// controller reports.
    fn revision_of_gateway(
        &self,
        name: &RevisionName,
        written: &WrittenRevision,
        failures: &WrittenFailures,
        mut replicas: Vec<Replica>,
    ) -> Revision {
        for replica in &mut replicas {
            replica.last_exit = failures.exit(&replica.name);
        }
        let is_ready = replicas.iter().any(|replica| replica.phase == Phase::Ready);
        let other = other_autoscalers::of_revision(self.autoscalers.values(), name);
        Revision {
            name: name.clone(),
            identity: Identity::from_label(&written.identity),
            desired: least_desired(written, &replicas),
            concurrency: written.concurrency,
            scaling: written.left_by(other).map(Arc::new),
            scaled_by: other.cloned(),
            gpus: 0,
            ready_call: written.ready_call(),
            transport: written.transport(),
            ignored_fields: Vec::new(),
            failure: failures.failure().filter(|_| !is_ready),
            reported_outlook: Some(failures.outlook()),
            unplaced: None,
            shared_gpus: BTreeSet::new(),
            replicas,
        }
    }
}

/// Returns the least number of replicas that may be desired where that number is unknown: the replicas that exist, and
/// at least the policy's lower bound. Without a policy of Weir the number is at least one, because no request could
/// wake the revision.
fn least_desired(written: &WrittenRevision, replicas: &[Replica]) -> u32 {
    let counted = replicas.iter().filter(|r| r.phase.is_counted()).count();
    let least = written.scaling.as_ref().map_or(1, |s| s.policy().bound(0));
    least.max(u32::try_from(counted).unwrap_or(u32::MAX))
}

/// Returns true if a replica has a node, but no address and no known cause of the delay. A pod without a node, and one
/// that pulls an image or fetches a model, has a known cause.
fn is_bare(replica: &Replica) -> bool {
    replica.phase == Phase::Pending && replica.failure.is_none() && replica.endpoints == Endpoints::default()
}

/// Reports a pod that its node has not set up. The exact cause is in the pod's Events, which Weir does not read.
fn not_set_up(replica: &Replica) -> Failure {
    let message = format!(
        "its node has not set it up in ten minutes: a Secret, a ConfigMap or a volume that it mounts may be missing, see \
         `kubectl describe pod {}`",
        replica.name
    );
    Failure::new(FailureReason::NotStarted, message)
}

/// Returns the latest cause of a revision not being ready; None once a replica is ready.
fn failure(replicas: &[Replica], unmade: Option<Failure>, before: Option<&Revision>) -> Option<Failure> {
    if replicas.iter().any(|replica| replica.phase == Phase::Ready) {
        return None;
    }
    let now = replicas
        .iter()
        .filter(|replica| replica.phase.is_counted() || has_just_ended(replica, before))
        .find_map(|replica| replica.failure.clone());
    let former = || before.and_then(|before| before.failure.clone());
    now.or(unmade).or_else(|| former().filter(replica::lasts))
}

/// Returns true if a replica has ended since the last snapshot. An evicted pod remains long after its replacement came
/// up, and must not count as a later failure.
fn has_just_ended(replica: &Replica, before: Option<&Revision>) -> bool {
    before.is_some_and(|before| {
        let mut former = before.replicas.iter();
        let former = former.find(|former| former.name == replica.name);
        former.is_none_or(|former| former.phase.is_counted())
    })
}

/// Returns why some desired replicas cannot start, whatever the others do.
fn unplaced(replicas: &[Replica], unmade: Option<&Failure>) -> Option<Failure> {
    let mut failures = replicas.iter().filter_map(|replica| {
        let failure = replica.failure.as_ref();
        failure.filter(|failure| has_no_place(replica.phase, failure.reason))
    });
    unmade.or(failures.next()).cloned()
}

fn has_no_place(phase: Phase, reason: FailureReason) -> bool {
    match reason {
        FailureReason::NotStarted => matches!(phase, Phase::Pending | Phase::BackOff),
        FailureReason::NodeNotReady => phase.is_counted(),
        FailureReason::StorageFailed
        | FailureReason::Exited
        | FailureReason::CrashLoopBackOff
        | FailureReason::OutOfMemory
        | FailureReason::Hung
        | FailureReason::NotReady => false,
    }
}

//! Nodes of the replicas, and the choice of replicas that a scale-in ends: those with the fewest requests, and among
//! equals those that free a node. Pure.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use weir_cluster::{Phase, Replica, ReplicaLoads, RevisionName, ScaleInCandidate, choose_scale_in};

use crate::objects::has_gpu;

/// Annotation by which a ReplicaSet orders the ready pods that it ends: the lowest cost first. Unset counts as 0.
pub(crate) const COST: &str = "controller.kubernetes.io/pod-deletion-cost";

/// Value of [`COST`] that Weir sets on pods that end first. Any other value is not Weir's.
pub(crate) const FIRST: &str = "-1";

/// Facts about a replica's pod that decide the order of a scale-in.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placement {
    node: Option<Arc<str>>,
    has_gpu: bool,
    is_ready: bool,
    cost: Option<Arc<str>>,
}

/// Change of one pod's [`COST`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CostEdit {
    pub(crate) pod: Arc<str>,
    /// Value to write; None removes the annotation.
    pub(crate) cost: Option<&'static str>,
}

/// Placements of all replicas that are not about to end.
#[derive(Debug, Default)]
pub(crate) struct Placements {
    by_revision: BTreeMap<RevisionName, BTreeMap<Arc<str>, Placement>>,
}

impl Placement {
    /// Returns the placement of a pod, or None if the pod is ending.
    pub(crate) fn of(pod: &Pod, replica: &Replica) -> Option<Self> {
        let node = pod.spec.as_ref()?.node_name.as_deref();
        replica.phase.is_counted().then(|| Self {
            node: node.map(Arc::from),
            has_gpu: has_gpu(pod),
            is_ready: replica.phase == Phase::Ready,
            cost: pod.annotations().get(COST).map(|cost| cost.as_str().into()),
        })
    }

    /// True if [`COST`] has a value that is not Weir's.
    fn is_ordered_by_others(&self) -> bool {
        self.cost.as_deref().is_some_and(|cost| cost != FIRST)
    }
}

impl Placements {
    /// Records a replica's placement; `None` once the replica is gone.
    pub(crate) fn set(&mut self, revision: &RevisionName, pod: &Arc<str>, placement: Option<Placement>) {
        match placement {
            Some(placement) => {
                let of_revision = self.by_revision.entry(revision.clone()).or_default();
                of_revision.insert(pod.clone(), placement);
            }
            None => {
                let Some(of_revision) = self.by_revision.get_mut(revision) else {
                    return;
                };
                of_revision.remove(pod);
                if of_revision.is_empty() {
                    self.by_revision.remove(revision);
                }
            }
        }
    }

    /// Returns the changes of deletion costs to write before a revision is scaled in to `replicas`. `loads` has the
    /// gateways' requests in flight at each replica. A revision with costs that others set is left alone.
    pub(crate) fn edits(&self, revision: &RevisionName, replicas: u32, loads: &ReplicaLoads) -> Vec<CostEdit> {
        let Some(own) = self.by_revision.get(revision) else {
            return Vec::new();
        };
        if replicas == 0 || own.values().any(Placement::is_ordered_by_others) {
            return Vec::new();
        }
        let first = self.first(revision, own, replicas as usize, loads);
        let edits = own.iter().filter_map(|(pod, placement)| {
            let cost = match (first.contains(pod), &placement.cost) {
                (true, None) => Some(FIRST),
                (false, Some(_)) => None,
                (true, Some(_)) | (false, None) => return None,
            };
            let pod = pod.clone();
            Some(CostEdit { pod, cost })
        });
        edits.collect()
    }

    /// Returns the ready replicas that are to end; Kubernetes ends replicas that are not ready before them in any case.
    /// Equally loaded replicas are ordered to free the most nodes: first those on nodes with the fewest pods of other
    /// revisions, then those on nodes with the fewest pods of this revision. The result is empty where the order makes
    /// no difference.
    fn first(
        &self,
        revision: &RevisionName,
        own: &BTreeMap<Arc<str>, Placement>,
        replicas: usize,
        loads: &ReplicaLoads,
    ) -> BTreeSet<Arc<str>> {
        let mut by_node: BTreeMap<&Arc<str>, Vec<&Arc<str>>> = BTreeMap::new();
        let ready = own.iter().filter(|(_, placement)| placement.is_ready);
        for (pod, placement) in ready {
            if let Some(node) = &placement.node {
                by_node.entry(node).or_default().push(pod);
            }
        }
        let ready: usize = by_node.values().map(Vec::len).sum();
        let ends = ready.saturating_sub(replicas);
        let is_loaded = own.keys().any(|pod| loads.contains_key(pod));
        if ends == 0 || (by_node.len() < 2 && !is_loaded) {
            return BTreeSet::new();
        }
        let others = self.others(revision, own.values().any(|placement| placement.has_gpu));
        let mut nodes: Vec<_> = by_node.into_iter().collect();
        nodes.sort_by_key(|(node, pods)| (others.get(node).copied().unwrap_or(0), pods.len()));
        let pods = nodes.into_iter().flat_map(|(_, pods)| pods);
        let candidates = pods.map(|pod| ScaleInCandidate {
            name: pod.clone(),
            phase: Phase::Ready,
            load: loads.get(pod).copied().unwrap_or_default(),
        });
        choose_scale_in(candidates.collect(), ends).into_iter().collect()
    }

    /// Counts the pods of other revisions on each node. With `only_gpus` only pods with a GPU count, since GPUs make a
    /// node expensive.
    fn others(&self, revision: &RevisionName, only_gpus: bool) -> BTreeMap<&Arc<str>, usize> {
        let others = self.by_revision.iter().filter(|(name, _)| *name != revision).flat_map(|(_, pods)| pods.values());
        let mut count = BTreeMap::new();
        for other in others.filter(|other| other.has_gpu || !only_gpus) {
            if let Some(node) = &other.node {
                *count.entry(node).or_default() += 1;
            }
        }
        count
    }
}

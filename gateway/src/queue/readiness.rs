//! Opens a replica to requests as soon as it answers a readiness probe, which may be before the platform reports it
//! ready.

use std::sync::Arc;

use tokio::sync::Notify;
use weir_cluster::{Phase, Replica, Revision};

use super::RevisionQueue;
use crate::upstream::probe::probe_until_ready;

/// Starts a probe of each replica of the revision that was not probed yet. The task ends with its replica, or notifies
/// `is_ready`.
pub(crate) fn probe_replicas(queue: &Arc<RevisionQueue>, revision: &Revision, is_ready: &Arc<Notify>) {
    for (upstream, _, _) in queue.replicas() {
        let mut replicas = revision.replicas.iter();
        let replica = replicas.find(|replica: &&Replica| upstream.is(replica));
        let is_up = replica.is_some_and(|replica| match replica.phase {
            Phase::Starting | Phase::Ready => true,
            Phase::Pending | Phase::Unready | Phase::BackOff | Phase::Terminating => false,
        });
        if is_up && upstream.begins_probe() {
            let (queue, reporter) = (Arc::clone(queue), Arc::clone(&upstream));
            let report = move |capacity| queue.report_capacity(&reporter, capacity);
            tokio::spawn(probe_until_ready(upstream, Arc::clone(is_ready), report));
        }
    }
}

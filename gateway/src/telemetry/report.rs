//! The gateway's report to autoscalers, with the activity of every revision.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::{Activity, Report, RevisionName};

use crate::queue::RevisionQueue;
use crate::state::State;

/// Returns a report of all counts since the gateway started: at `started` (seconds since 1970), which was `age` ago.
pub(crate) fn report(state: &State, started: u64, age: Duration) -> Report {
    let gateways = u32::try_from(state.peers.len()).unwrap_or(u32::MAX);
    let routed = state.routes.queues.iter();
    let mut revisions = routed.map(|(name, queue)| (name.clone(), queue.reported_activity(gateways))).collect();
    state.leaving.iter().for_each(|queue| add_leaving(&mut revisions, queue));
    Report {
        started,
        age_us: u64::try_from(age.as_micros()).unwrap_or(u64::MAX),
        routes: state.snapshot.routes.generation,
        revisions,
    }
}

/// Adds the requests at the replicas of a revision without a route, because a replica ends once no report shows a
/// request at it. The revision may have a route and another queue again, whose counters are the ones that are reported.
fn add_leaving(revisions: &mut BTreeMap<RevisionName, Arc<Activity>>, queue: &RevisionQueue) {
    let Activity { in_flight, replica_loads, .. } = Arc::unwrap_or_clone(queue.activity());
    if replica_loads.is_empty() {
        return;
    }
    let load = Activity { in_flight, replica_loads, ..Activity::default() };
    Arc::make_mut(revisions.entry(queue.name.clone()).or_default()).merge(&load);
}

//! The gateway's report to autoscalers, with the activity of every revision.

use std::time::Duration;

use weir_cluster::Report;

use crate::state::State;

/// Returns a report of all counts since the gateway started: at `started` (seconds since 1970), which was `age` ago.
pub(crate) fn report(state: &State, started: u64, age: Duration) -> Report {
    let revisions = state.routes.queues.iter();
    let gateways = u32::try_from(state.peers.len()).unwrap_or(u32::MAX);
    Report {
        started,
        age_us: u64::try_from(age.as_micros()).unwrap_or(u64::MAX),
        routes: state.snapshot.routes.generation,
        revisions: revisions.map(|(name, queue)| (name.clone(), queue.reported_activity(gateways))).collect(),
    }
}

//! How busy this gateway is.

use std::time::Duration;

use weir_cluster::Report;

use crate::state::State;

/// All counts since the gateway began.
pub(crate) fn report(state: &State, started: u64, age: Duration) -> Report {
    let revisions = state.routes.queues.iter();
    Report {
        started,
        age_us: u64::try_from(age.as_micros()).unwrap_or(u64::MAX),
        routes: state.snapshot.routes.generation,
        revisions: revisions
            .map(|(name, queue)| (name.clone(), queue.activity()))
            .collect(),
    }
}

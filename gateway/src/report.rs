//! How busy this gateway is.

use std::time::Duration;

use weir_cluster::Report;

use crate::view::View;

/// All counts since the gateway began.
pub(crate) fn report(view: &View, started: u64, age: Duration) -> Report {
    let revisions = view.ways.lines.iter();
    Report {
        started,
        age_us: u64::try_from(age.as_micros()).unwrap_or(u64::MAX),
        routes: view.snapshot.routes.generation,
        revisions: revisions
            .map(|(name, line)| (name.clone(), line.activity()))
            .collect(),
    }
}

//! Waits of the reconciler for the next change.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::{LatestReports, Snapshot, untrusted_replicas};

use super::observed::{ConflictCache, Observed};
use crate::declaration::Declaration;
use crate::source::Source;

/// Period of reconciliations without a change: rollout steps end with time, and failed calls are retried.
const TICK: Duration = Duration::from_secs(1);

/// Watched sources of change.
pub(super) struct Watches {
    pub(super) declaration: watch::Receiver<Arc<Declaration>>,
    pub(super) snapshot: watch::Receiver<Arc<Snapshot>>,
    pub(super) reports: watch::Receiver<Arc<LatestReports>>,
    pub(super) conflicts: ConflictCache,
    pub(super) source: Arc<dyn Source>,
}

impl Watches {
    /// Returns the latest value of each source; `now` is in seconds since 1970.
    pub(super) fn observed(&mut self, now: u64) -> Observed {
        let snapshot = self.snapshot.borrow_and_update().clone();
        let reports = self.reports.borrow_and_update().clone();
        Observed {
            declaration: self.declaration.borrow_and_update().clone(),
            conflicts: self.conflicts.conflicts(&snapshot.routes),
            snapshot,
            untrusted: untrusted_replicas(&reports),
            reports,
            overwritten: self.source.overwritten(),
            now,
        }
    }

    /// Waits for the next change or tick.
    ///
    /// # Errors
    /// Returned when the sender of a watched value was dropped.
    pub(super) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            changed = self.declaration.changed() => changed,
            changed = self.snapshot.changed() => changed,
            changed = self.reports.changed() => changed,
            () = tokio::time::sleep(TICK) => Ok(()),
        }
    }
}

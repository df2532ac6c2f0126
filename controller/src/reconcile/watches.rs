//! Waiting for something to do.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use weir_cluster::{LatestReports, Snapshot};

use super::{Claims, Observed};
use crate::Declaration;

/// How often it inputs without being told to: steps of rollouts end with time, and what failed is tried
/// again.
const TICK: Duration = Duration::from_secs(1);

/// The shortest time between two inputs: what happens in between, as when many services start at once, is
/// seen together. Nobody's request waits for us.
const PAUSE: Duration = Duration::from_millis(10);

/// All that is watched.
pub(super) struct Watches {
    pub(super) declared: watch::Receiver<Arc<Declaration>>,
    pub(super) snapshot: watch::Receiver<Arc<Snapshot>>,
    pub(super) reports: watch::Receiver<Arc<LatestReports>>,
}

impl Watches {
    /// The latest of each.
    pub(super) fn observed(&mut self, claims: &mut Claims, now: u64) -> Observed {
        let snapshot = self.snapshot.borrow_and_update().clone();
        Observed {
            declaration: self.declared.borrow_and_update().clone(),
            conflicts: claims.conflicts(&snapshot.routes),
            snapshot,
            reports: self.reports.borrow_and_update().clone(),
            now,
        }
    }

    /// Returns at the next change, or after a moment; not at once after the last.
    ///
    /// # Errors
    /// When nobody declares or runs anything any more.
    pub(super) async fn changed(&mut self) -> Result<(), watch::error::RecvError> {
        tokio::time::sleep(PAUSE).await;
        tokio::select! {
            changed = self.declared.changed() => changed,
            changed = self.snapshot.changed() => changed,
            changed = self.reports.changed() => changed,
            () = tokio::time::sleep(TICK) => Ok(()),
        }
    }
}

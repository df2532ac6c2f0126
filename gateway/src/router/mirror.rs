//! Mirrors requests to another revision, whose responses are discarded.
//!
//! `decide` samples requests, `counts` limits and counts copies, and `forward::mirror` sends each copy in a task of its
//! own. A request never waits for its copy.

mod counts;
mod decide;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use http::HeaderMap;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_cluster::RevisionName;
use weir_serve::byte_budget::ByteBudget;

use super::matcher::RouteMatch;
use crate::queue::RevisionQueue;
pub(crate) use counts::{MirrorCounts, MirrorOutcome, MirrorPermit};
use decide::{RevisionChoice, is_mirrored};

/// Divisor of the byte budget for the copies of all services, so that copies for a revision that hangs do not use up
/// the memory for users' requests.
const BUDGET_DIVISOR: usize = 8;

/// Tasks and byte budget of the copies in flight.
pub(crate) struct Mirrors {
    bytes: ByteBudget,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// The revision that gets a copy of one request.
pub(crate) struct MirrorTarget {
    pub(crate) queue: Arc<RevisionQueue>,
    pub(crate) counts: Arc<MirrorCounts>,
}

impl Mirrors {
    /// Creates the state without copies. `all_buffers` is the byte budget for all bodies together.
    pub(crate) fn new(all_buffers: usize) -> Self {
        Self {
            bytes: ByteBudget::new(all_buffers / BUDGET_DIVISOR),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Returns a permit for one more copy of this size; `None` if a limit is reached.
    pub(crate) fn try_acquire(&self, counts: &Arc<MirrorCounts>, bytes: usize) -> Option<MirrorPermit> {
        counts.try_acquire(self.bytes.permit(), bytes)
    }

    /// Runs one copy until it ends or all copies are stopped, and counts its outcome.
    pub(crate) fn spawn(&self, counts: Arc<MirrorCounts>, copy: impl Future<Output = MirrorOutcome> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let outcome = stop.run_until_cancelled(copy).await;
            counts.count(outcome.unwrap_or(MirrorOutcome::Dropped));
        });
    }

    /// Drops the copies in flight and waits for their tasks.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Returns the revision that gets a copy of this request, if any; the request itself goes to `chosen`.
pub(crate) fn target(
    counts: &HashMap<RevisionName, Arc<MirrorCounts>>,
    queues: &HashMap<RevisionName, Arc<RevisionQueue>>,
    headers: &HeaderMap,
    found: &RouteMatch<'_>,
    chosen: &RevisionName,
) -> Option<MirrorTarget> {
    let mirror = found.route.mirror.as_ref()?;
    let counts = counts.get(&mirror.revision)?;
    let choice = RevisionChoice::of(headers, found.revision);
    if !is_mirrored(mirror, chosen, choice, || counts.next_sample()) {
        return None;
    }
    Some(MirrorTarget { queue: Arc::clone(queues.get(&mirror.revision)?), counts: Arc::clone(counts) })
}

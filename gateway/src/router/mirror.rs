//! Copies of requests for another revision, whose answers are thrown away.
//!
//! `decide` says who gets one; `counts` counts them and says how many may be under way; `forward::mirror` sends
//! each in a task of its own. A user's request never waits for its copy, and never learns of it.

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
use weir_ops::byte_budget::ByteBudget;

use super::matcher::RouteMatch;
use crate::queue::RevisionQueue;
pub(crate) use counts::{MirrorCounts, MirrorOutcome, MirrorPermit};
use decide::{RevisionChoice, is_mirrored};

/// All copies of all services take this part of the memory for bodies: a revision that hangs must not
/// take what users' requests need.
const PART_OF_BUFFERS: usize = 8;

/// The copies under way: their tasks, and the bytes that they hold together.
pub(crate) struct Mirrors {
    bytes: ByteBudget,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Where one request's copy goes.
pub(crate) struct MirrorTarget {
    pub(crate) queue: Arc<RevisionQueue>,
    pub(crate) counts: Arc<MirrorCounts>,
}

impl Mirrors {
    /// None under way; all bodies together may hold `all_buffers` bytes.
    pub(crate) fn new(all_buffers: usize) -> Self {
        Self {
            bytes: ByteBudget::new(all_buffers / PART_OF_BUFFERS),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// A place for one more copy of so many bytes, if there is any.
    pub(crate) fn try_acquire(
        &self,
        counts: &Arc<MirrorCounts>,
        bytes: usize,
    ) -> Option<MirrorPermit> {
        counts.try_acquire(self.bytes.permit(), bytes)
    }

    /// Runs one copy, which says what became of it, until it is done or all are ended.
    pub(crate) fn spawn(
        &self,
        counts: Arc<MirrorCounts>,
        copy: impl Future<Output = MirrorOutcome> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let outcome = stop.run_until_cancelled(copy).await;
            counts.count(outcome.unwrap_or(MirrorOutcome::Dropped));
        });
    }

    /// Drops the copies that are still under way, and waits for their tasks.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Where a copy of this request goes, if it gets one; `chosen` is where the request itself goes.
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
    Some(MirrorTarget {
        queue: Arc::clone(queues.get(&mirror.revision)?),
        counts: Arc::clone(counts),
    })
}

//! Copies of requests for another revision, whose answers are thrown away.
//!
//! `decide` says who gets one; `copies` counts them and says how many may be under way; `life::copy` sends
//! each in a task of its own. A user's request never waits for its copy, and never learns of it.

mod copies;
mod decide;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use http::HeaderMap;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use weir_cluster::RevisionName;

use crate::buffers::Buffers;
use crate::line::Line;
use crate::route::Found;
use crate::view::View;
pub(crate) use copies::{Copied, Copies, Place};
use decide::{Aim, gets_copy};

/// All copies of all services take this part of the memory for bodies: a revision that hangs must not
/// take what users' requests need.
const PART_OF_BUFFERS: usize = 8;

/// The copies under way: their tasks, and the bytes that they hold together.
pub(crate) struct Mirrors {
    bytes: Buffers,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Where one request's copy goes.
pub(crate) struct Shadow {
    pub(crate) line: Arc<Line>,
    pub(crate) copies: Arc<Copies>,
}

impl Mirrors {
    /// None under way; all bodies together may hold `all_buffers` bytes.
    pub(crate) fn new(all_buffers: usize) -> Self {
        Self {
            bytes: Buffers::new(all_buffers / PART_OF_BUFFERS),
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        }
    }

    /// A place for one more copy of so many bytes, if there is any.
    pub(crate) fn place(&self, copies: &Arc<Copies>, bytes: usize) -> Option<Place> {
        copies.place(self.bytes.portion(), bytes)
    }

    /// Runs one copy, which says what became of it, until it is done or all are ended.
    pub(crate) fn spawn(
        &self,
        copies: Arc<Copies>,
        copy: impl Future<Output = Copied> + Send + 'static,
    ) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let copied = stop.run_until_cancelled(copy).await;
            copies.count(copied.unwrap_or(Copied::Dropped));
        });
    }

    /// Drops the copies that are still under way, and waits for their tasks.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Where a copy of this request goes, if it gets one; `chosen` is where the request itself goes.
pub(crate) fn shadow(
    view: &View,
    headers: &HeaderMap,
    found: &Found<'_>,
    chosen: &RevisionName,
) -> Option<Shadow> {
    let mirror = found.route.mirror.as_ref()?;
    let copies = view.ways.copies.get(&mirror.revision)?;
    let aim = Aim::of(headers, found.revision);
    if !gets_copy(mirror, chosen, aim, || copies.luck()) {
        return None;
    }
    Some(Shadow {
        line: Arc::clone(view.ways.lines.get(&mirror.revision)?),
        copies: Arc::clone(copies),
    })
}

//! Noticing that a file changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::folder::Sources;
use crate::ControllerError;
use crate::declared::Declaration;

/// How long nothing may happen before files are read: editors write a file in several steps, a few
/// milliseconds apart.
const QUIET: Duration = Duration::from_millis(100);

/// How long that is waited for at most: a folder that something writes to all the time is read anyway.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches folders; dropping it ends that.
#[derive(Debug)]
pub(super) struct Watcher {
    changed: Arc<Notify>,
    _watcher: RecommendedWatcher,
}

impl Watcher {
    /// Watches the folders, and the folders of the files: an editor that replaces a file takes the old
    /// one's watch away with it.
    pub(super) fn start(paths: &[PathBuf]) -> Result<Self, ControllerError> {
        let changed = Arc::new(Notify::new());
        let notified = changed.clone();
        let event = move |event: notify::Result<notify::Event>| {
            // Reading is no change, and we read. An error may hide one.
            if event.map_or(true, |event| !event.kind.is_access()) {
                notified.notify_one();
            }
        };
        let started = notify::recommended_watcher(event);
        let mut watcher = started.map_err(|error| failed(Path::new("."), error))?;
        let folders: BTreeSet<PathBuf> = paths.iter().map(|path| folder(path)).collect();
        for folder in folders {
            let watched = watcher.watch(&folder, RecursiveMode::NonRecursive);
            watched.map_err(|error| failed(&folder, error))?;
        }
        Ok(Self {
            changed,
            _watcher: watcher,
        })
    }

    /// Waits for a change, and then until nothing changes for a moment.
    async fn settled(&self) {
        self.changed.notified().await;
        let patience = Instant::now() + PATIENCE;
        loop {
            let quiet = (Instant::now() + QUIET).min(patience);
            if timeout_at(quiet, self.changed.notified()).await.is_err() {
                return;
            }
            if Instant::now() >= patience {
                return;
            }
        }
    }
}

/// A folder that is not there is that, and no matter of watching.
fn failed(path: &Path, error: notify::Error) -> ControllerError {
    match std::fs::metadata(path) {
        Ok(_) => ControllerError::Watch {
            path: path.to_owned(),
            source: error,
        },
        Err(source) => ControllerError::Read {
            path: path.to_owned(),
            source,
        },
    }
}

/// Reads the files anew after every change, until nobody wants to know.
pub(super) async fn follow(
    watcher: Watcher,
    mut sources: Sources,
    declared: watch::Sender<Arc<Declaration>>,
) {
    loop {
        tokio::select! {
            () = watcher.settled() => {}
            () = declared.closed() => return,
        }
        let read = tokio::task::spawn_blocking(move || {
            let declaration = sources.next();
            (sources, declaration)
        });
        let Ok((back, declaration)) = read.await else {
            return;
        };
        sources = back;
        tell(&declared.borrow().problems, &declaration.problems);
        declared.send_if_modified(|last| {
            let is_new = **last != declaration;
            if is_new {
                *last = Arc::new(declaration);
            }
            is_new
        });
    }
}

/// Each problem is told once.
fn tell(before: &[String], now: &[String]) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        tracing::warn!("{problem}; what was there before stays in force");
    }
    if now.is_empty() && !before.is_empty() {
        tracing::info!("the files are right again");
    }
}

fn folder(path: &Path) -> PathBuf {
    match (path.is_dir(), path.parent()) {
        (true, _) | (false, None) => path.to_owned(),
        (false, Some(parent)) if parent.as_os_str().is_empty() => PathBuf::from("."),
        (false, Some(parent)) => parent.to_owned(),
    }
}

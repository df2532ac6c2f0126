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
        let failed = |path: &Path, source| ControllerError::Watch {
            path: path.to_owned(),
            source,
        };
        let mut watcher =
            notify::recommended_watcher(event).map_err(|error| failed(Path::new("."), error))?;
        let folders: BTreeSet<PathBuf> = paths.iter().map(|path| folder(path)).collect();
        for folder in folders {
            let watched = watcher.watch(&folder, RecursiveMode::NonRecursive);
            match (watched, std::fs::metadata(&folder)) {
                (Ok(()), _) => {}
                (Err(_), Err(source)) => {
                    return Err(ControllerError::Read {
                        path: folder,
                        source,
                    });
                }
                (Err(error), Ok(_)) => return Err(failed(&folder, error)),
            }
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

//! Noticing that a file changed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::manifest_set::ManifestSet;
use super::watched_folders::watched_folders;
use crate::ControllerError;
use crate::source::Declaration;

/// How long nothing may happen before files are read: editors write a file in several steps, a few
/// milliseconds apart.
const QUIET: Duration = Duration::from_millis(100);

/// How long that is waited for at most: a folder that something writes to all the time is read anyway.
const PATIENCE: Duration = Duration::from_secs(1);

/// How often links are followed anew until they stay as they are: who changes them all the time is looked at
/// again with the next change.
const LOOKS: usize = 4;

/// Watches folders; dropping it ends that.
#[derive(Debug)]
pub(super) struct Watcher {
    changed: Arc<Notify>,
    watcher: RecommendedWatcher,
    /// Those that are watched, by their real names.
    folders: BTreeSet<PathBuf>,
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
        let watcher = started.map_err(|error| failed(Path::new("."), error))?;
        let mut this = Self {
            changed,
            watcher,
            folders: BTreeSet::new(),
        };
        for path in paths {
            for folder in watched_folders(path) {
                let watched = this.watch(&folder);
                watched.map_err(|error| failed(path, error))?;
            }
        }
        Ok(this)
    }

    /// Watches what the paths and their files lead to now, and nothing else any more. Must come before they are
    /// read: what changes after it is noticed.
    pub(super) fn look(&mut self, sources: &ManifestSet) {
        for _ in 0..LOOKS {
            let paths = sources.everything();
            let wanted: BTreeSet<PathBuf> = paths
                .iter()
                .flat_map(|path| watched_folders(path))
                .collect();
            let new: Vec<_> = wanted.difference(&self.folders).cloned().collect();
            self.forget(&wanted);
            // One that went meanwhile is told of by the folder of whoever led to it.
            new.iter().for_each(|folder| drop(self.watch(folder)));
            if new.is_empty() {
                return;
            }
        }
    }

    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.watcher.watch(folder, RecursiveMode::NonRecursive)?;
        self.folders.insert(folder.to_owned());
        Ok(())
    }

    fn forget(&mut self, wanted: &BTreeSet<PathBuf>) {
        let watcher = &mut self.watcher;
        self.folders.retain(|folder| {
            let is_wanted = wanted.contains(folder);
            if !is_wanted {
                // The watch of one that is gone went with it.
                let _ = watcher.unwatch(folder);
            }
            is_wanted
        });
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
    mut watcher: Watcher,
    mut sources: ManifestSet,
    declared: watch::Sender<Arc<Declaration>>,
) {
    loop {
        tokio::select! {
            () = watcher.settled() => {}
            () = declared.closed() => return,
        }
        let read = tokio::task::spawn_blocking(move || {
            watcher.look(&sources);
            let declaration = sources.next();
            (watcher, sources, declaration)
        });
        let Ok((back, again, declaration)) = read.await else {
            return;
        };
        (watcher, sources) = (back, again);
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

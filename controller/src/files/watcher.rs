//! Watches files and reads them again after a change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::manifest_set::ManifestSet;
use super::watched_folders::watched_folders;
use crate::declaration::Declaration;
use crate::error::ControllerError;

/// Time without changes after which files are read: editors write a file in several steps, a few milliseconds
/// apart.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Longest time from a change to reading, for a directory that something writes to all the time.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Times that links are followed until two in a row agree; links that keep changing are followed again after the
/// next change.
const MAX_UPDATES: usize = 4;

/// Watches directories until it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    changed: Arc<Notify>,
    watcher: RecommendedWatcher,
    /// The watched directories, by their real names.
    folders: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches the directories, and those of the files: a file's own watch ends when an editor replaces the file.
    pub(super) fn start(paths: &[PathBuf]) -> Result<Self, ControllerError> {
        let changed = Arc::new(Notify::new());
        let notified = changed.clone();
        let event = move |event: notify::Result<notify::Event>| {
            // Reading causes events too. An error may hide a change.
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

    /// Watches exactly what the paths and their files lead to now. Must precede reading, so that a change after
    /// it is seen.
    pub(super) fn update(&mut self, manifests: &ManifestSet) {
        for _ in 0..MAX_UPDATES {
            let paths = manifests.all_paths();
            let needed: BTreeSet<PathBuf> = paths
                .iter()
                .flat_map(|path| watched_folders(path))
                .collect();
            let new: Vec<_> = needed.difference(&self.folders).cloned().collect();
            self.unwatch_others(&needed);
            // The removal of a directory that is gone by now changes the directory above, which is watched.
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

    fn unwatch_others(&mut self, needed: &BTreeSet<PathBuf>) {
        let watcher = &mut self.watcher;
        self.folders.retain(|folder| {
            let is_needed = needed.contains(folder);
            if !is_needed {
                // The watch of a removed directory is gone already.
                let _ = watcher.unwatch(folder);
            }
            is_needed
        });
    }

    /// Waits for a change and until the changes pause.
    async fn debounced(&self) {
        self.changed.notified().await;
        let latest = Instant::now() + MAX_DELAY;
        loop {
            let quiet = (Instant::now() + DEBOUNCE).min(latest);
            if timeout_at(quiet, self.changed.notified()).await.is_err() {
                return;
            }
            if Instant::now() >= latest {
                return;
            }
        }
    }
}

/// The error of a path that cannot be watched; a missing one cannot be read.
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

/// Reads the files after every change, until the last receiver is gone.
pub(super) async fn follow(
    mut watcher: Watcher,
    mut manifests: ManifestSet,
    declared: watch::Sender<Arc<Declaration>>,
) {
    loop {
        tokio::select! {
            () = watcher.debounced() => {}
            () = declared.closed() => return,
        }
        let read = tokio::task::spawn_blocking(move || {
            watcher.update(&manifests);
            let declaration = manifests.next();
            (watcher, manifests, declaration)
        });
        let Ok((back, again, declaration)) = read.await else {
            return;
        };
        (watcher, manifests) = (back, again);
        log_new(&declared.borrow().problems, &declaration.problems);
        declared.send_if_modified(|last| {
            let is_new = **last != declaration;
            if is_new {
                *last = Arc::new(declaration);
            }
            is_new
        });
    }
}

/// Logs each problem once.
fn log_new(before: &[String], now: &[String]) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        tracing::warn!("{problem}; the last valid version keeps serving");
    }
    if now.is_empty() && !before.is_empty() {
        tracing::info!("all manifests are valid again");
    }
}

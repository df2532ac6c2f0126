//! Watches files and reads them again after a change.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout_at};

use super::event_filter::EventFilter;
use super::manifest_set::ManifestSet;
use super::watched_folders::watched_folders;
use crate::clock;
use crate::declaration::Declaration;
use crate::error::ControllerError;

/// Time without changes after which the files are read: editors write a file in several steps, a few milliseconds
/// apart.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Longest delay between a change and the next read, for a directory that is written to all the time.
const MAX_DELAY: Duration = Duration::from_secs(1);

/// Most attempts to follow the links until two consecutive ones agree. Links that still change are followed again after
/// the next change.
const MAX_UPDATES: usize = 4;

/// Watches directories until it is dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    changed: Arc<Notify>,
    /// Filter, shared with the thread that receives the events.
    filter: Arc<Mutex<EventFilter>>,
    watcher: RecommendedWatcher,
    /// Watched directories by their real paths, including those that could not be watched.
    folders: BTreeSet<PathBuf>,
}

impl Watcher {
    /// Watches the directories, and the directories of the files: a watch of a file itself ends when an editor replaces
    /// it.
    pub(super) fn start(paths: &[PathBuf]) -> Result<Self, ControllerError> {
        let changed = Arc::new(Notify::new());
        let filter = Arc::new(Mutex::new(EventFilter::of(paths)));
        let started = notify::recommended_watcher(handler(changed.clone(), filter.clone()));
        let watcher = started.map_err(|error| failed(Path::new("."), error))?;
        let mut this = Self { changed, filter, watcher, folders: BTreeSet::new() };
        for path in paths {
            for folder in watched_folders(path) {
                let watched = this.watch(&folder);
                watched.map_err(|error| failed(path, error))?;
            }
        }
        Ok(this)
    }

    /// Returns the signal that makes the watcher read the files again.
    pub(super) fn changed(&self) -> Arc<Notify> {
        Arc::clone(&self.changed)
    }

    /// Watches the directories that the paths and their files lead to now. It must precede reading, so that no later
    /// change is missed.
    pub(super) fn update(&mut self, manifests: &ManifestSet) {
        self.unwatch_all();
        for _ in 0..MAX_UPDATES {
            let filter = EventFilter::of(&manifests.all_paths());
            let needed = filter.watched();
            let new: Vec<_> = needed.difference(&self.folders).cloned().collect();
            *self.filter.lock() = filter;
            // A directory that is gone by now, or that this process may not list, is below one that is watched.
            new.iter().for_each(|folder| drop(self.watch(folder)));
            if new.is_empty() {
                return;
            }
        }
    }

    fn watch(&mut self, folder: &Path) -> notify::Result<()> {
        self.folders.insert(folder.to_owned());
        self.watcher.watch(folder, RecursiveMode::NonRecursive)
    }

    /// Ends every watch, because a watch follows a directory and not its path: another directory may have the path by
    /// now. Comparing inodes does not help, because their numbers are reused, and `notify` drops the watch of a
    /// directory that was moved away even if it came back.
    fn unwatch_all(&mut self) {
        for folder in std::mem::take(&mut self.folders) {
            // The watch of a removed directory is gone already.
            let _ = self.watcher.unwatch(&folder);
        }
    }

    /// Waits for a change, and then until the changes pause.
    async fn debounced(&self) {
        self.changed.notified().await;
        let latest = clock::now() + MAX_DELAY;
        loop {
            let quiet = (clock::now() + DEBOUNCE).min(latest);
            if timeout_at(quiet, self.changed.notified()).await.is_err() {
                return;
            }
            if clock::now() >= latest {
                return;
            }
        }
    }
}

/// Returns the callback that receives the events and signals those that matter.
fn handler(
    changed: Arc<Notify>,
    filter: Arc<Mutex<EventFilter>>,
) -> impl Fn(notify::Result<notify::Event>) + Send + 'static {
    move |event| {
        // An error may hide a change.
        if event.map_or(true, |event| filter.lock().lets_through(&event)) {
            changed.notify_one();
        }
    }
}

/// Returns the error of a path that cannot be watched, or of one that is missing.
fn failed(path: &Path, error: notify::Error) -> ControllerError {
    match std::fs::metadata(path) {
        Ok(_) => ControllerError::Watch { path: path.to_owned(), source: error },
        Err(source) => ControllerError::Read { path: path.to_owned(), source },
    }
}

/// Reads the files after every change, and when missing objects may be deleted, until the last receiver is dropped.
pub(super) async fn follow(
    mut watcher: Watcher,
    mut manifests: ManifestSet,
    declared: watch::Sender<Arc<Declaration>>,
) {
    loop {
        tokio::select! {
            () = watcher.debounced() => {}
            () = reached(manifests.settles_at()) => {}
            () = declared.closed() => return,
        }
        let read = tokio::task::spawn_blocking(move || {
            watcher.update(&manifests);
            let declaration = manifests.next(clock::now());
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

/// Waits until a time; without one, for ever.
async fn reached(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Logs each problem once.
fn log_new(before: &[String], now: &[String]) {
    for problem in now.iter().filter(|problem| !before.contains(problem)) {
        tracing::warn!("{problem}; an object with an error keeps its last valid version");
    }
    if now.is_empty() && !before.is_empty() {
        tracing::info!("all manifests are valid again");
    }
}

//! The cache of downloaded models. The least recently used ones are removed once all of them exceed a limit.
//!
//! ```text
//!   models/HASH           files of a model, complete
//!   models/HASH.fetching  a download that is not complete
//!   models/HASH.loaded    mark that a replica was ready with the model
//!   models/HASH.use       lock of the two; a replica holds it shared, and its time is the time of the last use
//! ```

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use weir_fetch::eviction::{Candidate, Eviction};

/// Extension of the lock of a model.
const LOCK: &str = "use";

/// Extension of the mark of a model that a replica has loaded.
const LOADED: &str = "loaded";

/// A lock that keeps a downloaded model from being removed until it is dropped.
#[derive(Debug)]
pub(crate) struct ModelLock {
    model: PathBuf,
    _file: File,
}

impl ModelLock {
    /// Locks the model at `path` for use, and records that it is used now. Waits while the model is being removed.
    ///
    /// # Errors
    /// Fails if the lock file cannot be created, locked or written.
    pub(crate) fn acquire(path: &Path) -> io::Result<Self> {
        let lock = path.with_extension(LOCK);
        if let Some(models) = lock.parent() {
            fs::create_dir_all(models)?;
        }
        let mut file = OpenOptions::new().create(true).append(true).open(&lock)?;
        file.lock_shared()?;
        // A write sets the time of the last use.
        file.set_len(0)?;
        file.write_all(b"used\n")?;
        Ok(Self { model: path.to_owned(), _file: file })
    }

    /// Records that a replica is ready with the model, so that the files are as they should be.
    ///
    /// # Errors
    /// Fails if the mark cannot be written.
    pub(crate) fn mark_loaded(&self) -> io::Result<()> {
        File::create(self.model.with_extension(LOADED)).map(drop)
    }
}

/// Removes the least recently used models until the rest has at most `limit` bytes. Models in use stay. Returns the
/// number of removed models.
///
/// # Errors
/// Fails if the directory cannot be read or a model cannot be removed.
pub(crate) fn evict(models: &Path, limit: u64) -> io::Result<usize> {
    let mut eviction = Eviction::new(list(models)?, limit);
    let mut removed = 0;
    while let Some(model) = eviction.next() {
        if remove(&model.id)? {
            eviction.removed(&model);
            removed += 1;
        }
    }
    Ok(removed)
}

/// Removes a downloaded model that no replica has ever loaded, so that it is downloaded again. Returns false if one has,
/// if a replica uses the model, or if there is none.
///
/// # Errors
/// Fails if the model cannot be removed.
pub(crate) fn remove_unloaded(model: &Path) -> io::Result<bool> {
    if !model.exists() || model.with_extension(LOADED).exists() {
        return Ok(false);
    }
    remove(model)
}

/// Removes a model and its incomplete download. Returns false if a replica uses the model.
fn remove(model: &Path) -> io::Result<bool> {
    let lock = OpenOptions::new().create(true).append(true).open(model.with_extension(LOCK))?;
    if lock.try_lock().is_err() {
        return Ok(false);
    }
    for path in [model, &model.with_extension(FETCHING)] {
        unless_missing(fs::remove_dir_all(path))?;
    }
    unless_missing(fs::remove_file(model.with_extension(LOADED)))?;
    Ok(true)
}

/// Returns the error of a removal, except that there was nothing to remove.
fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Extension of the directory of an incomplete download.
const FETCHING: &str = "fetching";

/// Returns the models, each under the path that it has once it is complete.
fn list(models: &Path) -> io::Result<Vec<Candidate<PathBuf>>> {
    let mut found = BTreeMap::<PathBuf, u64>::new();
    for entry in fs::read_dir(models)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            *found.entry(entry.path().with_extension("")).or_default() += size(&entry.path())?;
        }
    }
    let entries = found.into_iter().map(|(path, bytes)| {
        // A model without a lock was downloaded by an earlier version of Weir.
        let used = fs::metadata(path.with_extension(LOCK)).and_then(|lock| lock.modified());
        Candidate { last_use: used.unwrap_or(SystemTime::UNIX_EPOCH), id: path, owner: String::new(), bytes }
    });
    Ok(entries.collect())
}

/// Returns the bytes of all files below a directory. A file that vanishes meanwhile counts nothing.
fn size(directory: &Path) -> io::Result<u64> {
    let mut total = 0;
    let mut open = vec![directory.to_owned()];
    while let Some(directory) = open.pop() {
        let Ok(entries) = fs::read_dir(&directory) else {
            continue;
        };
        for entry in entries {
            let entry = entry?;
            match entry.metadata() {
                Ok(meta) if meta.is_dir() => open.push(entry.path()),
                Ok(meta) => total += meta.len(),
                Err(_) => {}
            }
        }
    }
    Ok(total)
}

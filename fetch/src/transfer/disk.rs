//! The files of a download on disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;

use super::journal::Journal;
use super::plan;
use crate::error::FetchError;
use crate::progress::size;
use crate::store::Object;

/// Directory of the files in the working directory.
pub(crate) const FILES: &str = "files";

/// Working directory of a download, with its journal and files.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    folder: PathBuf,
    journal: Arc<Journal>,
    /// Size of the whole download in bytes; `None` if it is unknown.
    total: Option<u64>,
    access: Arc<RwLock<WriteAccess>>,
}

/// Permission to write to the files of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteAccess {
    Open,
    /// The download has ended.
    Closed,
}

impl Disk {
    pub(super) fn new(folder: &Path, journal: Journal, total: Option<u64>) -> Self {
        Self {
            folder: folder.to_owned(),
            journal: Arc::new(journal),
            total,
            access: Arc::new(RwLock::new(WriteAccess::Open)),
        }
    }

    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    /// Waits for the writes that run, and prevents later ones.
    pub(super) fn close(&self) {
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = WriteAccess::Closed;
    }

    fn path(&self, path: &Path) -> PathBuf {
        self.folder.join(FILES).join(path)
    }

    /// Opens the file of an object for writing.
    pub(super) async fn open(&self, path: &Path) -> Result<Arc<File>, FetchError> {
        let (disk, path) = (self.clone(), self.path(path));
        blocking(move || {
            let file = create(&path);
            file.map(Arc::new).map_err(disk.failed(&path))
        })
        .await
    }

    /// Writes bytes at an offset of a file, then the number of received bytes of their piece to the journal.
    pub(super) async fn write(
        &self,
        file: &Arc<File>,
        chunks: Vec<Bytes>,
        mut offset: u64,
        (slot, count): (usize, u64),
    ) -> Result<(), FetchError> {
        let (disk, file) = (self.clone(), file.clone());
        blocking(move || {
            let access = disk.access.read().unwrap_or_else(PoisonError::into_inner);
            if *access == WriteAccess::Closed {
                return Ok(());
            }
            for chunk in chunks {
                file.write_all_at(&chunk, offset).map_err(disk.failed(&disk.folder))?;
                offset += chunk.len() as u64;
            }
            disk.journal.record(slot, count).map_err(disk.failed(&disk.folder))
        })
        .await
    }

    /// Sets the received bytes of pieces to 0.
    pub(super) async fn forget(&self, slots: std::ops::Range<usize>) -> Result<(), FetchError> {
        let disk = self.clone();
        blocking(move || {
            let mut slots = slots;
            slots.try_for_each(|slot| disk.journal.record(slot, 0)).map_err(disk.failed(&disk.folder))
        })
        .await
    }

    /// Gives a complete file its size, because a former version may have been longer.
    pub(super) async fn complete(&self, path: &Path, size: u64) -> Result<PathBuf, FetchError> {
        let (disk, path) = (self.clone(), self.path(path));
        blocking(move || {
            let has_size = fs::metadata(&path).is_ok_and(|file| file.len() == size);
            let sized = if has_size { Ok(()) } else { create(&path).and_then(|file| file.set_len(size)) };
            sized.map(|()| path.clone()).map_err(disk.failed(&path))
        })
        .await
    }

    fn failed(&self, path: &Path) -> impl FnOnce(io::Error) -> FetchError {
        let (path, total) = (path.to_owned(), self.total);
        move |error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                FetchError::DiskFull { path, needed: total, source: error }
            }
            _ => FetchError::file(path)(error),
        }
    }
}

/// Opens a file for writing, and creates it and its directory if they do not exist.
fn create(path: &Path) -> io::Result<File> {
    let open = || File::options().write(true).create(true).truncate(false).open(path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            fs::create_dir_all(path.parent().unwrap_or(path))?;
            open()
        }
        opened => opened,
    }
}

/// Sets the received bytes of files to 0 that are missing or too short, for example because another program removed
/// them.
pub(super) fn forget_lost(files: &Path, objects: &[Object], counts: &mut [u64]) {
    let mut rest = counts;
    for object in objects {
        let (of_object, others) = rest.split_at_mut(plan::slots(object));
        rest = others;
        let needed = plan::last_received(object, of_object);
        let length = || fs::metadata(files.join(object.path.as_path())).map_or(0, |file| file.len());
        if needed > 0 && length() < needed {
            of_object.fill(0);
        }
    }
}

/// Checks that the file system has room for the missing bytes. A file system that does not say how much is free passes.
pub(super) fn check_room(folder: &Path, missing: u64, total: Option<u64>) -> Result<(), FetchError> {
    let Ok(stat) = rustix::fs::statvfs(folder) else {
        return Ok(());
    };
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if missing <= free || stat.f_blocks == 0 {
        return Ok(());
    }
    let source = io::Error::new(io::ErrorKind::StorageFull, format!("{} are free", size::shown(free)));
    Err(FetchError::DiskFull { path: folder.to_owned(), needed: total, source })
}

/// Runs a blocking function on a thread for blocking work.
pub(crate) async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> Result<T, FetchError> + Send + 'static,
) -> Result<T, FetchError> {
    let done = tokio::task::spawn_blocking(act).await;
    done.unwrap_or_else(|lost| Err(FetchError::Archive(io::Error::other(lost))))
}

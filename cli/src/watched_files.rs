//! Files that are read at the start and again when they change.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files as they were before they were last read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WatchedFiles(pub(crate) Vec<(PathBuf, Fingerprint)>);

/// Modification time, size and inode of a file; `None` for a file that does not exist.
type Fingerprint = Option<(i64, i64, u64, u64)>;

impl WatchedFiles {
    /// Returns files as they are now. This precedes the first reading of their content, so that a change in between is
    /// noticed.
    pub(crate) fn of<P: Into<PathBuf>>(files: impl IntoIterator<Item = P>) -> Self {
        Self(files.into_iter().map(Into::into).map(|file| (file.clone(), fingerprint(&file))).collect())
    }

    /// Returns true if a file has changed since the last call.
    pub(crate) fn notice(&mut self) -> bool {
        let now = Self::of(self.0.iter().map(|(file, _)| file));
        let is_new = now != *self;
        *self = now;
        is_new
    }

    /// Waits until a file has changed. The files are checked at this interval.
    pub(crate) async fn changed(&mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            if self.notice() {
                return;
            }
        }
    }
}

/// Reads a file of at most `max` bytes. The error is a clause.
pub(crate) fn read_file(file: &Path, max: u64) -> Result<Vec<u8>, String> {
    let size = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if size > max {
        return Err(format!("{size} bytes, more than {max}"));
    }
    std::fs::read(file).map_err(|error| error.to_string())
}

fn fingerprint(file: &Path) -> Fingerprint {
    // `metadata` follows symbolic links: Kubernetes replaces a link to update a mounted Secret.
    let found = std::fs::metadata(file).ok()?;
    Some((found.mtime(), found.mtime_nsec(), found.size(), found.ino()))
}

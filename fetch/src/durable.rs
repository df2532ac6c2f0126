//! Keeps a power failure from leaving a complete target without its content.
//!
//! Linux writes files to disk within half a minute, and the rename of their directory may be there before them. A fetch
//! does not wait for the disk, which may be slower than the network. Instead it writes a mark beside the target: the
//! content may not be on disk yet. A task removes the mark once the content is on disk. A target with the mark of an
//! earlier boot is fetched again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::FetchError;

/// File with an identifier that is new at each boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// Time in which Linux writes most files to disk by itself: changed pages expire after 30 s, and the kernel looks for
/// expired pages every 5 s.
const WRITEBACK: Duration = Duration::from_secs(60);

/// Returns the identifier of this boot; empty on systems without one, where no boot differs from another.
pub(crate) fn boot() -> String {
    fs::read_to_string(BOOT_ID).map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// Path of the mark beside a target.
fn mark(target: &Path) -> PathBuf {
    target.with_added_extension("unsynced")
}

/// Marks a target that does not exist yet. The file system keeps the order of this and the target's rename.
///
/// # Errors
/// [`FetchError::File`] if the mark cannot be written.
pub(crate) fn begin(target: &Path) -> Result<(), FetchError> {
    let path = mark(target);
    fs::write(&path, boot()).map_err(FetchError::file(&path))
}

/// Starts a task that later writes a target to disk, and then removes its mark. If the process ends first, the mark
/// stays.
pub(crate) fn complete(target: PathBuf) {
    // A process that exits would wait for a running sync. A process that only fetches exits before this delay has passed.
    tokio::spawn(async move {
        tokio::time::sleep(WRITEBACK).await;
        let _ = tokio::task::spawn_blocking(move || write(&target)).await;
    });
}

/// Writes the file system of a target to disk, and removes the mark.
fn write(target: &Path) {
    let folder = target.parent().unwrap_or(Path::new("/"));
    let synced = File::open(folder).and_then(|folder| Ok(rustix::fs::syncfs(folder)?));
    if synced.is_ok() {
        let _ = fs::remove_file(mark(target));
    }
}

/// Returns true if a target exists, and its content cannot have been lost.
pub(crate) fn is_complete(target: &Path) -> bool {
    let is_lost = || fs::read_to_string(mark(target)).is_ok_and(|marked| marked.trim() != boot());
    target.exists() && !is_lost()
}

/// Removes a target whose content may not have reached the disk before this boot.
///
/// # Errors
/// [`FetchError::File`] if it cannot be removed.
pub(crate) fn remove_lost(target: &Path) -> Result<(), FetchError> {
    if is_complete(target) || !target.exists() {
        return Ok(());
    }
    fs::remove_dir_all(target).map_err(FetchError::file(target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_of_an_earlier_boot_is_removed_only_with_its_mark() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model.v1");
        remove_lost(&target).unwrap();
        let create = || fs::create_dir_all(&target).unwrap();
        create();
        remove_lost(&target).unwrap();
        assert!(is_complete(&target));
        begin(&target).unwrap();
        remove_lost(&target).unwrap();
        assert!(is_complete(&target));
        // The content of a mark may be lost, too.
        for other in ["another boot", ""] {
            create();
            fs::write(folder.path().join("model.v1.unsynced"), other).unwrap();
            assert!(!is_complete(&target));
            remove_lost(&target).unwrap();
            assert!(!target.exists(), "{other:?}");
        }
    }

    #[test]
    fn the_mark_is_removed_when_the_content_is_on_disk() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("model");
        begin(&target).unwrap();
        fs::create_dir(&target).unwrap();
        write(&target);
        assert!(target.exists() && !mark(&target).exists());
    }
}

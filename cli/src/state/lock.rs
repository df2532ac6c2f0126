//! Lock of a state directory. Without it, two `weir up` would overwrite each other's files.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::{AdminFile, create_private};
use crate::error::CliError;

/// Name of the locked file. The file remains when the process ends; the lock does not.
const FILE: &str = "lock";

/// Exclusive use of a state directory, released on drop. The kernel also releases the lock when the process is killed.
#[derive(Debug)]
pub(crate) struct StateLock {
    _locked: File,
}

impl StateLock {
    /// Locks the directory, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`CliError::StateTaken`] when another process holds the lock, [`CliError::StateUnavailable`] when the directory
    /// is not usable.
    pub(crate) fn acquire(directory: &Path) -> Result<Self, CliError> {
        let path = directory.join(FILE);
        let failed = |source| CliError::StateUnavailable { state_dir: directory.to_owned(), source };
        create_private(directory).map_err(failed)?;
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _locked: file }),
            Err(TryLockError::WouldBlock) => Err(CliError::StateTaken {
                state_dir: directory.to_owned(),
                // A `weir up` that has just started may not have written the file yet.
                holder: AdminFile::read(directory).ok().map(|file| file.process),
            }),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_locked_once_and_free_after_the_lock_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let lock = StateLock::acquire(&state).unwrap();
        let message = StateLock::acquire(&state).unwrap_err().report();
        let expected = format!(
            "error: the state directory {} is in use by another `weir up`: stop that one, or set another \
             directory with --state-dir",
            state.display()
        );
        assert_eq!(message, expected);
        drop(lock);
        StateLock::acquire(&state).unwrap();
    }
}

//! Lock of a state directory: two `weir up` would overwrite each other's files.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;

use super::{AdminFile, create_private};
use crate::error::CliError;

/// Name of the locked file. The file stays when the process ends; the lock does not.
const FILE: &str = "lock";

/// Exclusive use of a state directory until it is dropped. The kernel releases the lock however the process ends.
#[derive(Debug)]
pub(crate) struct StateLock {
    _locked: File,
}

impl StateLock {
    /// Locks the directory, which is made if it does not exist.
    ///
    /// # Errors
    /// [`CliError::StateTaken`] when another process has locked it, [`CliError::StateUnavailable`].
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
                // A process that has just started has not written it yet.
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

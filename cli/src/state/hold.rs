//! One `weir up` for each state directory: two would write over each other's files.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::path::Path;

use super::AdminFile;
use crate::error::CliError;

/// The file that is locked. It stays when its holder ends: the lock is what counts, not the file.
const FILE: &str = "lock";

/// The state directory is ours for as long as this lives. The kernel takes it back however the process ends.
#[derive(Debug)]
pub(crate) struct Hold {
    _locked: File,
}

impl Hold {
    /// Takes the directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`CliError::StateTaken`] when somebody has it, [`CliError::Io`].
    pub(crate) fn take(directory: &Path) -> Result<Self, CliError> {
        let path = directory.join(FILE);
        let failed = |source| CliError::io(format!("cannot lock {}", path.display()), source);
        fs::create_dir_all(directory).map_err(|source| {
            let what = format!(
                "the state directory {} is not available",
                directory.display()
            );
            CliError::io(what, source)
        })?;
        let mut options = OpenOptions::new();
        let file = options.create(true).append(true).open(&path);
        let file = file.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _locked: file }),
            Err(TryLockError::WouldBlock) => Err(CliError::StateTaken {
                state_dir: directory.to_owned(),
                // Who has just begun has not written it yet.
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
    fn a_directory_has_one_holder_and_is_free_again_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let hold = Hold::take(&state).unwrap();
        let told = Hold::take(&state).unwrap_err().told();
        let expected = format!(
            "error: another `weir up` uses the state directory {}: end it, or give this one its own with \
             --state-dir",
            state.display()
        );
        assert_eq!(told, expected);
        drop(hold);
        Hold::take(&state).unwrap();
    }
}

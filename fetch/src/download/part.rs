//! What of a download is there already, on disk.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{self, File, OpenOptions};

use crate::FetchError;

/// A file that grows, and beside it what tells its content from another.
pub(super) struct Part {
    path: PathBuf,
    validator: PathBuf,
}

impl Part {
    pub(super) fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            validator: path.with_extension("validator"),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes that are there.
    pub(super) async fn length(&self) -> u64 {
        fs::metadata(&self.path).await.map_or(0, |meta| meta.len())
    }

    /// What the server has to confirm before the rest is appended; without it, nothing is.
    pub(super) async fn validator(&self) -> Option<String> {
        fs::read_to_string(&self.validator).await.ok()
    }

    /// Empties it for a content of this validator. The order keeps old bytes from a new validator.
    pub(super) async fn restart(&self, validator: Option<&str>) -> Result<(), FetchError> {
        for path in [&self.path, &self.validator] {
            match fs::remove_file(path).await {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FetchError::file(path)(error));
                }
                Ok(()) | Err(_) => {}
            }
        }
        if let Some(validator) = validator {
            let written = fs::write(&self.validator, validator).await;
            written.map_err(FetchError::file(&self.validator))?;
        }
        Ok(())
    }

    /// Opens it to write behind what is there.
    pub(super) async fn append(&self) -> Result<File, FetchError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&self.path).await;
        file.map_err(FetchError::file(&self.path))
    }
}

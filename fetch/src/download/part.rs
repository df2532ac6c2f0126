//! The partial file of a download.

use std::io;
use std::path::{Path, PathBuf};

use tokio::fs::{self, File, OpenOptions};

use crate::error::FetchError;

/// A partial file, and a second file with the validator of its content.
pub(super) struct Part {
    path: PathBuf,
    validator: PathBuf,
}

impl Part {
    pub(super) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), validator: path.with_extension("validator") }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the length of the partial file in bytes; 0 if there is none.
    pub(super) async fn length(&self) -> u64 {
        fs::metadata(&self.path).await.map_or(0, |meta| meta.len())
    }

    /// Returns the validator that the server must confirm before the rest is appended; `None` if the content has none,
    /// so that the download must start again.
    pub(super) async fn validator(&self) -> Option<String> {
        fs::read_to_string(&self.validator).await.ok()
    }

    /// Empties the file for content with this validator. The validator is written last, so that it never describes old
    /// content.
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

    /// Opens the file for appending.
    pub(super) async fn append(&self) -> Result<File, FetchError> {
        let mut options = OpenOptions::new();
        let file = options.append(true).create(true).open(&self.path).await;
        file.map_err(FetchError::file(&self.path))
    }
}

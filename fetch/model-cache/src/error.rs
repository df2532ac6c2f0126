//! Errors of the cache.

use std::io;
use std::path::PathBuf;

/// Error of a request, or of the start.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The request has no token that the API server accepts for this cache.
    #[error("the token is not that of a ServiceAccount for the audience weir-model-cache")]
    Unauthenticated,
    /// The API server cannot say if the token is valid.
    #[error("the token cannot be checked: {0}")]
    Unchecked(String),
    /// The request is not one that the cache knows.
    #[error("{0}")]
    Invalid(String),
    /// The files are larger than the cache.
    #[error("the model is larger than the cache, which has {limit} bytes")]
    TooLarge {
        /// Size of the cache in bytes.
        limit: u64,
    },
    /// The cache has no room, because all of its entries are in use, or the file system is full.
    #[error("the cache is full")]
    Full,
    /// Too many clients fetch or wait at the same time.
    #[error("too many pods fetch models at the same time")]
    Busy,
    /// The lease has expired, or has never been given.
    #[error("the lease has expired")]
    NoLease,
    /// The directory cannot be a cache's.
    #[error("{0}")]
    Refused(String),
    /// A file of the cache cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl CacheError {
    /// Returns a function that adds a path to an error. A full file system is [`CacheError::Full`].
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => Self::Full,
            _ => Self::File { path, source },
        }
    }
}

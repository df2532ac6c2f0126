//! Why a model is not there.

use std::io;
use std::path::PathBuf;

/// What stopped a fetch. Addresses are shown without their query, which may hold a signature.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The address cannot be fetched by this crate.
    #[error("{uri}: {because}")]
    Address {
        /// As given.
        uri: String,
        /// What is wrong with it.
        because: String,
    },
    /// The server refused.
    #[error("{uri} answered {status}")]
    Refused {
        /// The address.
        uri: String,
        /// Its HTTP status.
        status: u16,
    },
    /// It did not work, again and again.
    #[error("{uri} could not be downloaded: {because}")]
    GaveUp {
        /// The address.
        uri: String,
        /// What happened last.
        because: String,
    },
    /// A limit is exceeded.
    #[error("{what} exceeds {limit}")]
    TooLarge {
        /// What is too large.
        what: String,
        /// The limit that it exceeds: bytes, or files.
        limit: u64,
    },
    /// An archive holds what it must not.
    #[error("the archive holds {entry:?}, {because}")]
    Unsafe {
        /// The name of the entry.
        entry: String,
        /// What is wrong with it.
        because: &'static str,
    },
    /// An archive cannot be read.
    #[error("the archive cannot be read")]
    Archive(#[source] io::Error),
    /// A file on this machine.
    #[error("{}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What happened.
        source: io::Error,
    },
}

impl FetchError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

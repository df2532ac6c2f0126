//! Errors of a fetch.

use std::io;
use std::path::PathBuf;

/// An error that ended a fetch. Messages omit the credentials and the query of a URI, which may hold a signature.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// A URI that this crate cannot fetch.
    #[error("{uri}: {reason}")]
    Address {
        /// The URI without its credentials and query.
        uri: String,
        /// The rule that the URI breaks.
        reason: String,
    },
    /// A response that retrying would not change, such as 404.
    #[error("{uri} answered {status}")]
    Refused {
        /// The URI without its query.
        uri: String,
        /// HTTP status of the response.
        status: u16,
    },
    /// Every attempt to download failed.
    #[error("{uri} could not be downloaded: {reason}")]
    GaveUp {
        /// The URI without its query.
        uri: String,
        /// The error of the last attempt.
        reason: String,
    },
    /// A limit on size or number was exceeded.
    #[error("{what} exceeds {limit}")]
    TooLarge {
        /// The quantity that is too large.
        what: String,
        /// The exceeded limit, in bytes or files.
        limit: u64,
    },
    /// A file other than the one that was asked for.
    #[error("{uri} has the digest sha256:{found}, not sha256:{expected}; nothing of it was unpacked")]
    Digest {
        /// The URI without its query.
        uri: String,
        /// The digest that was asked for, in hexadecimal.
        expected: String,
        /// Digest of the file that was downloaded.
        found: String,
    },
    /// A redirect that is not followed.
    #[error("{uri} redirects to {to}, {reason}")]
    Redirect {
        /// The URI without its query.
        uri: String,
        /// Scheme and host of the redirect.
        to: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// An archive with an entry that is not allowed.
    #[error("the archive holds {entry:?}, {reason}")]
    Unsafe {
        /// Name of the entry in the archive.
        entry: String,
        /// The rule that the entry breaks.
        reason: &'static str,
    },
    /// An archive that cannot be read.
    #[error("the archive cannot be read")]
    Archive(#[source] io::Error),
    /// An operation on a local file failed.
    #[error("{}", path.display())]
    File {
        /// Path of the local file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
}

impl FetchError {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

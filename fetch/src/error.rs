//! Errors of a fetch.

use std::io;
use std::path::{Path, PathBuf};

use crate::progress::size;

/// Error that ended a fetch. Messages omit the credentials and the query of a URI, which may contain a signature.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// This crate cannot fetch the URI.
    #[error("{uri}: {reason}")]
    Address {
        /// The URI without its credentials, query and fragment.
        uri: String,
        /// The rule that the URI breaks.
        reason: String,
    },
    /// The server refused the request, for example with 404; retrying would not help.
    #[error("{uri} answered {status}{}", advice(*status, *query))]
    Refused {
        /// The URI without its credentials, query and fragment.
        uri: String,
        /// HTTP status of the response.
        status: u16,
        /// Presence of a query in the URI, which may be a signature.
        query: UriQuery,
    },
    /// The source does not give the files; retrying would not help.
    #[error("{uri}: {reason}")]
    Unavailable {
        /// The URI without its credentials, query and fragment.
        uri: String,
        /// Sentence that says why, and what to do.
        reason: String,
    },
    /// Every attempt to download failed.
    #[error("{uri} could not be downloaded: {reason}")]
    GaveUp {
        /// The URI without its credentials, query and fragment.
        uri: String,
        /// Error of the last attempt.
        reason: String,
    },
    /// A limit on size or number was exceeded.
    #[error("{what} exceeds {limit}")]
    TooLarge {
        /// Quantity that is too large.
        what: String,
        /// Exceeded limit, in bytes or files.
        limit: u64,
    },
    /// The downloaded file has another digest than the URI requires.
    #[error("{uri} has the digest sha256:{found}, not sha256:{expected}; nothing was unpacked")]
    Digest {
        /// The URI without its credentials, query and fragment.
        uri: String,
        /// Required digest in hexadecimal.
        expected: String,
        /// Digest of the downloaded file, in hexadecimal.
        found: String,
    },
    /// The download met a redirect that is not followed.
    #[error("{uri} redirects to {to}, {reason}")]
    Redirect {
        /// The URI without its credentials, query and fragment.
        uri: String,
        /// Scheme and host of the redirect.
        to: String,
        /// Reason why the redirect is not followed.
        reason: &'static str,
    },
    /// The archive contains an entry that is not allowed.
    #[error("the archive contains {entry:?}, {reason}")]
    Unsafe {
        /// Name of the entry in the archive.
        entry: String,
        /// The rule that the entry breaks.
        reason: &'static str,
    },
    /// The image of a registry has no files in the directory of the model.
    #[error(
        "the image has no files in /models, only in {found}: put the model into /models (KServe's modelcar), or push its \
         files with oras"
    )]
    NoModels {
        /// Names at the root of the image.
        found: String,
    },
    /// The archive cannot be read.
    #[error("the archive cannot be read")]
    Archive(#[source] io::Error),
    /// The file system has no room for the download.
    #[error("{} has no room for the model{}; free some space, or use a larger volume", path.display(), of_size(*needed))]
    DiskFull {
        /// Path that could not be written.
        path: PathBuf,
        /// Size of all files in bytes; `None` if it is unknown.
        needed: Option<u64>,
        /// Error of the operating system.
        source: io::Error,
    },
    /// An operation on a local file failed.
    #[error("{}", path.display())]
    File {
        /// Path of the local file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

/// Presence of a query in a URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UriQuery {
    /// The URI has no query.
    Absent,
    /// The URI has a query, which may be a signature.
    Present,
}

/// Returns the clause that says what to do about a status of a web server.
fn advice(status: u16, query: UriQuery) -> &'static str {
    match (status, query) {
        (404 | 410, _) => ": there is no such file; check the address",
        (401 | 403, UriQuery::Present) => {
            ": access is denied; the signature in the URI has expired, or is not for this file: make a new one"
        }
        (401 | 403, UriQuery::Absent) => {
            ": access is denied; the file is not public: use a signed URI, or a scheme with credentials such as s3://"
        }
        _ => "",
    }
}

fn of_size(needed: Option<u64>) -> String {
    needed.map(|needed| format!(" of {}", size::shown(needed))).unwrap_or_default()
}

impl FetchError {
    /// Turns the error of a write to a full file system, which holds `folder`, into [`FetchError::DiskFull`].
    pub(crate) fn or_full(self, folder: &Path) -> Self {
        let is_full =
            |error: &io::Error| matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        match self {
            Self::Archive(source) | Self::File { source, .. } if is_full(&source) => {
                Self::DiskFull { path: folder.to_owned(), needed: None, source }
            }
            other => other,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { path, source }
    }
}

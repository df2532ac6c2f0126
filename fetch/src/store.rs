//! The interface between the schemes of URIs and the transfer: a store lists the objects of a source and opens them.

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::BoxStream;

use crate::archive::packing::Packing;
use crate::digest::Digest;
use crate::error::FetchError;
use crate::limits::Limits;

/// A source of objects: a bucket, a hub, a registry or a web server.
pub(crate) trait Store: Send + Sync {
    /// Returns the objects of the source, at most [`Limits::entries`].
    ///
    /// # Errors
    /// [`StoreError::Retry`] if another attempt may succeed, [`StoreError::Fatal`] if the source has no objects, has too
    /// many, or refuses the request.
    fn list(&self, limits: &Limits) -> impl Future<Output = Result<Vec<Object>, StoreError>> + Send;

    /// Returns the objects without reading their bytes, for a store whose listing already opens them; empty if the
    /// server does not state enough. `None` for all other stores, whose listings have the versions.
    fn head(&self) -> impl Future<Output = Option<Vec<Object>>> + Send {
        std::future::ready(None)
    }

    /// Opens the bytes of an object from `range.start`, up to `range.end` if the store supports ranges. A store that
    /// ignores ranges returns a body that starts at 0.
    ///
    /// # Errors
    /// [`StoreError::Changed`] if the object no longer has [`Object::version`]; otherwise as for [`Store::list`].
    fn read(&self, object: &Object, range: Range<u64>) -> impl Future<Output = Result<Body, StoreError>> + Send;
}

/// One file of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    /// Path below the target.
    pub(crate) path: RelativePath,
    /// Key by which the store reads the object: a bucket's key, a path in a repository, the digest of a blob, a URL.
    pub(crate) key: String,
    /// Size in bytes; `None` if only the first read says it.
    pub(crate) size: Option<u64>,
    /// Strong validator of the content (an entity tag, a hash of git, a digest); `None` if only the first read says it,
    /// or if the store has none.
    pub(crate) version: Option<String>,
    /// SHA-256 that the content must have; `None` if the source does not say it.
    pub(crate) digest: Option<Digest>,
    /// Packing of the content. An archive is unpacked into the directory that `path` is in.
    pub(crate) packing: Packing,
}

/// The bytes of an object, or of a range of it.
pub(crate) struct Body {
    /// Offset of the first byte in the object.
    pub(crate) start: u64,
    /// Offset after the last byte; `None` if the store does not say it.
    pub(crate) end: Option<u64>,
    /// Size of the whole object in bytes; `None` if the store does not say it.
    pub(crate) total: Option<u64>,
    /// Strong validator of the content, as for [`Object::version`].
    pub(crate) version: Option<String>,
    /// The bytes in order. The stream ends early if the connection is closed.
    pub(crate) chunks: BoxStream<'static, Result<Bytes, StoreError>>,
}

/// Error of one request to a store.
#[derive(Debug)]
pub(crate) enum StoreError {
    /// Another attempt may succeed.
    Retry {
        /// Clause that says what failed.
        reason: String,
        /// Delay that the server asked for; `None` if it did not.
        after: Option<Duration>,
    },
    /// The object has another version than was asked for.
    Changed,
    /// Every attempt would fail in the same way.
    Fatal(FetchError),
}

/// A path below the target: not empty, without `.`, `..`, empty or overlong parts, and not absolute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RelativePath(String);

/// Maximum number of parts of a path, as in an archive.
const MAX_DEPTH: usize = 64;

/// Maximum length of one part of a path in bytes, as Linux has it.
const MAX_PART: usize = 255;

impl RelativePath {
    /// Checks a path with `/` between its parts. The error is the rule that the path breaks, as a clause.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        if text.contains('\0') {
            return Err("which contains a null character");
        }
        for part in text.split('/') {
            match part {
                "" => return Err("which has an empty part"),
                "." | ".." => return Err("which leads out of the directory"),
                long if long.len() > MAX_PART => return Err("which has a part of more than 255 bytes"),
                _ => {}
            }
        }
        if text.split('/').count() > MAX_DEPTH {
            return Err("which lies more than 64 directories deep");
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns the path relative to the target.
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// Returns the path relative to the target, with `/` between its parts.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl StoreError {
    /// Returns an error that another attempt may avoid, without a delay that the server asked for.
    pub(crate) fn retry(reason: impl Into<String>) -> Self {
        Self::Retry { reason: reason.into(), after: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_below_the_target() {
        for path in ["a", "a/b.txt", "a b/ü", "..a/b..", ".hidden"] {
            assert_eq!(RelativePath::parse(path).unwrap().as_path(), Path::new(path), "{path}");
        }
        let long = "x".repeat(256);
        let deep = ["a"; 65].join("/");
        for path in ["", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/./b", "a\0b", &long, &deep] {
            assert!(RelativePath::parse(path).is_err(), "{path:?}");
        }
        assert!(RelativePath::parse(&["a"; 64].join("/")).is_ok());
    }
}

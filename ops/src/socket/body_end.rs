//! The sign by which a request's body ends.

use http::Version;
use http_body::Body;

/// The sign by which a body ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyEnd {
    /// By its framing, as over HTTP/1: one that breaks off is an error.
    #[default]
    Framed,
    /// By a flag on its last frame, as over HTTP/2. hyper ends a body whose stream is reset without an error code like one
    /// that is complete, and proxies reset streams so whose clients have left in the middle of an upload.
    Flagged,
}

/// Error of a body that stops before its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body broke off before its end")]
pub struct BrokenOff;

impl BodyEnd {
    /// The sign by which bodies of requests of this version end.
    #[must_use]
    pub fn of(version: Version) -> Self {
        if version < Version::HTTP_2 { Self::Framed } else { Self::Flagged }
    }

    /// Checks that a body which yields no more frames was sent to its end.
    ///
    /// # Errors
    /// [`BrokenOff`].
    pub fn check(self, body: &impl Body) -> Result<(), BrokenOff> {
        let is_announced = body.size_hint().lower() > 0;
        let is_flagged = match self {
            Self::Framed => true,
            Self::Flagged => body.is_end_stream(),
        };
        if is_flagged && !is_announced { Ok(()) } else { Err(BrokenOff) }
    }
}

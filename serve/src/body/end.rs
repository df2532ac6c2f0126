//! The way in which the end of a request's body is recognised.

use http::Version;
use http_body::Body;

/// The way in which the end of a body is recognised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyEnd {
    /// By the framing, as over HTTP/1.1, where an incomplete body is an error.
    #[default]
    Framed,
    /// By the END_STREAM flag on the last frame, as over HTTP/2. When a stream is reset without an error code, hyper
    /// ends its body as if it were complete. Proxies reset streams this way if the client leaves in the middle of an
    /// upload.
    Flagged,
}

/// Error of a body that ends too early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body broke off before its end")]
pub struct IncompleteBody;

impl BodyEnd {
    /// Returns how bodies of requests of this HTTP version end.
    #[must_use]
    pub fn of(version: Version) -> Self {
        if version < Version::HTTP_2 { Self::Framed } else { Self::Flagged }
    }

    /// Checks that a body which yields no more frames was received completely.
    ///
    /// # Errors
    /// [`IncompleteBody`] if the body is incomplete.
    pub fn check(self, body: &impl Body) -> Result<(), IncompleteBody> {
        let is_announced = body.size_hint().lower() > 0;
        let is_flagged = match self {
            Self::Framed => true,
            Self::Flagged => body.is_end_stream(),
        };
        if is_flagged && !is_announced { Ok(()) } else { Err(IncompleteBody) }
    }
}

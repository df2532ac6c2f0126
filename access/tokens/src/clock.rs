//! The clock by which key sets grow old.

use tokio::time::Instant;

/// Returns the current time.
pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the only place of this crate that reads the clock")]
    Instant::now()
}

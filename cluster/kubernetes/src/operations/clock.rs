//! The only place where this crate reads the clock of its timers; decisions take times as arguments.

use tokio::time::Instant;

/// Returns the current time. In tests, it stands still while tokio's clock is paused.
#[expect(clippy::disallowed_methods, reason = "only this module reads the clock; decisions take times as arguments")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

//! The only place where this crate reads clocks; decisions take times as arguments.

use std::time::SystemTime;

use tokio::time::Instant;

/// Returns the current time of timers. In tests, it stands still while tokio's clock is paused.
#[expect(clippy::disallowed_methods, reason = "only this module reads the clock; decisions take times as arguments")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the wall clock's time, which survives a restart as the time of a file.
#[expect(clippy::disallowed_methods, reason = "only this module reads the clock; decisions take times as arguments")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

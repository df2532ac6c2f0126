//! The only place where the gateway reads clocks; its decisions take times as arguments.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the current time, for deadlines and measurements.
#[expect(clippy::disallowed_methods, reason = "only this module reads the clock; decisions take times as arguments")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns the current time of tokio's timers. In tests, it stands still while tokio's clock is paused.
#[expect(clippy::disallowed_methods, reason = "only this module reads the clock; decisions take times as arguments")]
pub(crate) fn timer_now() -> tokio::time::Instant {
    tokio::time::Instant::now()
}

/// Returns the seconds since 1970; zero if the machine's clock is set before that.
#[expect(clippy::disallowed_methods, reason = "a report contains the start time of its gateway")]
pub(crate) fn seconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or(Duration::ZERO).as_secs()
}

/// Waits until `at`; forever if `at` is `None`.
pub(crate) async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

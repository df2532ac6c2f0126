//! The one place that reads the time.

use std::time::{Duration, Instant};

/// A gap this long is slept through; a shorter one is spent polling, because the reactor's timer has
/// a resolution of a millisecond.
const WORTH_SLEEPING: Duration = Duration::from_millis(3);

/// What is left of a gap to poll through after a sleep, which may end that much late.
const MARGIN: Duration = Duration::from_millis(2);

/// Now.
#[expect(
    clippy::disallowed_methods,
    reason = "a load generator measures time: this is its clock"
)]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns at `at`, or at once where that is past. Answers are received meanwhile.
pub(crate) async fn until(at: Instant) {
    loop {
        let left = at.saturating_duration_since(now());
        if left.is_zero() {
            return;
        }
        if left > WORTH_SLEEPING {
            tokio::time::sleep(left - MARGIN).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

//! A timer that is always due before those of connections, which saves a system call per response.
//!
//! When a new timer is due before all others, tokio wakes the thread that waits for timers with a system call, even if
//! that thread itself sets the timer. Over HTTP/1.1 each response sets a timer for the next request on its connection.
//! While an earlier timer exists, none of these needs the system call.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Shorter than the default timeout of connections (75 s for the head of a request), and long enough to cost an idle
/// processor almost nothing.
const PERIOD: Duration = Duration::from_secs(1);

/// Keeps a short timer set until `stop` is cancelled.
pub(super) async fn run(stop: CancellationToken) {
    let mut timer = tokio::time::interval(PERIOD);
    let ticking = async {
        loop {
            timer.tick().await;
        }
    };
    stop.run_until_cancelled(ticking).await;
}

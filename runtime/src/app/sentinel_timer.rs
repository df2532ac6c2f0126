//! A timer that ends sooner than those of connections, which saves a system call per answer.
//!
//! When a timer is set that ends before all others, tokio wakes the thread that waits for timers by a system call, even where
//! that thread is the one that sets it. Over HTTP/1.1 each answer sets one: how long the connection may take to ask again.
//! While a sooner one is always there, none of them costs that call.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

/// Shorter than what connections are given by default (75 s for a request's head), and long for a processor that has
/// nothing else to do.
const PERIOD: Duration = Duration::from_secs(1);

/// Keeps a short timer set until `stop`.
pub(super) async fn run(stop: CancellationToken) {
    let mut timer = tokio::time::interval(PERIOD);
    let ticking = async {
        loop {
            timer.tick().await;
        }
    };
    stop.run_until_cancelled(ticking).await;
}

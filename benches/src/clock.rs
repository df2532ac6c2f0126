//! The load generator's clock and timers.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;

/// Shortest gap for which to sleep. Shorter gaps are polled, because tokio's timer has a resolution of a millisecond.
const MIN_SLEEP: Duration = Duration::from_millis(3);

/// Time to poll after a sleep, because the sleep may end this much late.
const MARGIN: Duration = Duration::from_millis(2);

/// Reads the monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a load generator measures time: this is its clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Timer that waits until a point in time.
#[derive(Debug)]
pub(crate) enum Timer {
    /// Polls the clock at the end: exact, but uses the whole core.
    Poll,
    /// Waits for a kernel timer: tens of microseconds late, but leaves the core to others.
    Kernel(AsyncFd<OwnedFd>),
}

impl Timer {
    /// Creates a kernel timer.
    ///
    /// # Errors
    /// Fails if the kernel refuses to create the timer.
    #[expect(deprecated, reason = "its successor is unsafe code; the descriptor is owned here and never replaced")]
    pub(crate) fn kernel() -> anyhow::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("cannot create a timer")?;
        Ok(Self::Kernel(AsyncFd::new(timer)?))
    }

    /// Waits until `at`; returns at once if that is past. Responses are received meanwhile.
    ///
    /// # Errors
    /// Fails if the timer cannot be set.
    pub(crate) async fn wait_until(&self, at: Instant) -> anyhow::Result<()> {
        match self {
            Self::Poll => poll_until(at).await,
            Self::Kernel(timer) => sleep_until(timer, at).await?,
        }
        Ok(())
    }
}

async fn poll_until(at: Instant) {
    loop {
        let left = at.saturating_duration_since(now());
        if left.is_zero() {
            return;
        }
        if left > MIN_SLEEP {
            tokio::time::sleep(left - MARGIN).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}

async fn sleep_until(timer: &AsyncFd<OwnedFd>, at: Instant) -> anyhow::Result<()> {
    let left = at.saturating_duration_since(now());
    if left.is_zero() {
        return Ok(());
    }
    let once = Itimerspec { it_interval: Timespec::default(), it_value: Timespec::try_from(left)? };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    // Setting the timer again clears its readiness, so its count need not be read.
    timer.readable().await?.clear_ready();
    Ok(())
}

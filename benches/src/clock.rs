//! The one place that reads the time.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;

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

/// How moments are waited for.
#[derive(Debug)]
pub(crate) enum Alarm {
    /// Polling at the end: exact, and takes all of the core.
    Poll,
    /// The kernel's timer: tens of microseconds late, and leaves the core to others meanwhile.
    Timer(AsyncFd<OwnedFd>),
}

impl Alarm {
    /// A timer of the kernel.
    ///
    /// # Errors
    /// There is none to be had.
    #[expect(
        deprecated,
        reason = "its successor is unsafe code; the descriptor is owned here and never replaced"
    )]
    pub(crate) fn timer() -> anyhow::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("no timer")?;
        Ok(Self::Timer(AsyncFd::new(timer)?))
    }

    /// Returns at `at`, or at once where that is past. Answers are received meanwhile.
    ///
    /// # Errors
    /// The timer cannot be set.
    pub(crate) async fn until(&self, at: Instant) -> anyhow::Result<()> {
        match self {
            Self::Poll => poll_until(at).await,
            Self::Timer(timer) => sleep_until(timer, at).await?,
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
        if left > WORTH_SLEEPING {
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
    let once = Itimerspec {
        it_interval: Timespec::default(),
        it_value: Timespec::try_from(left)?,
    };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &once)?;
    // Setting it again takes the readiness back: what it has to tell need not be read.
    timer.readable().await?.clear_ready();
    Ok(())
}

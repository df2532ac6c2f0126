//! Detects when an HTTP/1.1 connection is idle.
//!
//! hyper does not report that it waits for the next request and has nothing else to do. But hyper uses the timer that
//! it is configured with only for the timeout of a request head, and starts that timeout when this wait begins.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use pin_project_lite::pin_project;
use tokio::time::Instant;

use crate::clock;

/// Pause after which a connection counts as idle. After such a pause the next request is rarely imminent, hyper's state
/// takes some 20 KiB, and recreating it takes a few microseconds.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(2);

/// Timer that hyper uses for one connection, and that records when the connection is idle. Clones share one state.
#[derive(Clone, Debug)]
pub(super) struct IdleTimer(Arc<IdleState>);

#[derive(Debug)]
struct IdleState {
    /// Time by which the first request's head must be complete.
    first: Instant,
    has_begun: AtomicBool,
    is_idle: AtomicBool,
}

impl IdleTimer {
    /// Creates a timer for a connection that has begun to send its first head, which must be complete by `first`.
    pub(super) fn new(first: Instant) -> Self {
        Self(Arc::new(IdleState { first, has_begun: AtomicBool::new(false), is_idle: AtomicBool::new(false) }))
    }

    /// Returns true if the connection has waited for its next request for [`IDLE_AFTER`] and still waits. Part of a
    /// head may have arrived; earlier responses are complete unless writing to the client is blocked.
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_idle.load(Ordering::Relaxed)
    }
}

impl Timer for IdleTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        self.sleep_until(Timer::now(self) + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        let deadline = Instant::from_std(deadline);
        let is_first = !self.0.has_begun.swap(true, Ordering::Relaxed);
        let (deadline, idle_at) = if is_first {
            // The client has already begun to send the first head, so the connection is not idle while hyper waits for
            // it.
            (deadline.min(self.0.first), None)
        } else {
            (deadline, Some(clock::now() + IDLE_AFTER))
        };
        let idle_at = idle_at.filter(|idle_at| *idle_at < deadline);
        Box::pin(HeadTimeout {
            sleep: tokio::time::sleep_until(idle_at.unwrap_or(deadline)),
            deadline: idle_at.map(|_| deadline),
            state: Arc::clone(&self.0),
        })
    }

    fn now(&self) -> std::time::Instant {
        clock::now().into()
    }
}

pin_project! {
    // Timeout of one head, which also marks the connection as idle after `IDLE_AFTER`.
    struct HeadTimeout {
        #[pin]
        sleep: tokio::time::Sleep,
        // Deadline of the head while `sleep` still runs to the end of `IDLE_AFTER`; `None` once `sleep` runs to the
        // deadline of the head itself.
        deadline: Option<Instant>,
        state: Arc<IdleState>,
    }

    impl PinnedDrop for HeadTimeout {
        fn drop(this: Pin<&mut Self>) {
            this.state.is_idle.store(false, Ordering::Relaxed);
        }
    }
}

impl Sleep for HeadTimeout {}

impl Future for HeadTimeout {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        while this.sleep.as_mut().poll(context).is_ready() {
            let Some(deadline) = this.deadline.take() else {
                return Poll::Ready(());
            };
            this.state.is_idle.store(true, Ordering::Relaxed);
            this.sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

//! When an HTTP/1.1 connection is quiet.
//!
//! Its library does not say when it waits for the next request with nothing else left to do, but it times that
//! wait, and no other, by a clock that we give it.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Sleep, Timer};
use pin_project_lite::pin_project;
use tokio::time::Instant;

/// Without a request for so long, the next is seldom close: what a connection needs for one is some 20 KiB,
/// and made in a few microseconds.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(2);

/// The clock of one connection, which notes when it is quiet. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct IdleTimer(Arc<IdleState>);

#[derive(Debug)]
struct IdleState {
    /// Until when the first head has to be there.
    first: Instant,
    has_begun: AtomicBool,
    is_idle: AtomicBool,
}

impl IdleTimer {
    /// For a connection that has begun to send its first head, and has time for it until then.
    pub(super) fn new(first: Instant) -> Self {
        Self(Arc::new(IdleState {
            first,
            has_begun: AtomicBool::new(false),
            is_idle: AtomicBool::new(false),
        }))
    }

    /// Whether the connection has waited for its next request for [`IDLE_AFTER`], and still does. Some of a head
    /// may have come; all that was answered is answered, if it could be written.
    pub(super) fn is_now(&self) -> bool {
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
        let (deadline, look) = match is_first {
            // It is under way, so there is no quiet before it.
            true => (deadline.min(self.0.first), None),
            false => (deadline, Some(Instant::now() + IDLE_AFTER)),
        };
        let look = look.filter(|look| *look < deadline);
        Box::pin(HeadWait {
            sleep: tokio::time::sleep_until(look.unwrap_or(deadline)),
            then: look.map(|_| deadline),
            state: Arc::clone(&self.0),
        })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

pin_project! {
    /// Ends when a head has taken too long.
    struct HeadWait {
        #[pin]
        sleep: tokio::time::Sleep,
        // What follows the time until it counts as quiet.
        then: Option<Instant>,
        state: Arc<IdleState>,
    }

    impl PinnedDrop for HeadWait {
        fn drop(this: Pin<&mut Self>) {
            this.state.is_idle.store(false, Ordering::Relaxed);
        }
    }
}

impl Sleep for HeadWait {}

impl Future for HeadWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        while this.sleep.as_mut().poll(context).is_ready() {
            let Some(deadline) = this.then.take() else {
                return Poll::Ready(());
            };
            this.state.is_idle.store(true, Ordering::Relaxed);
            this.sleep.as_mut().reset(deadline);
        }
        Poll::Pending
    }
}

//! Lets a version that is replaced finish with everyone who found it, before it is drained.
//!
//! A request looks a version up and submits to it a moment later. In between the version may be
//! replaced: without the gate that request would meet a closed queue.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts who is inside, until it is closed.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    /// Twice the number of those inside, plus one once it is closed.
    state: AtomicUsize,
    empty: Notify,
}

/// The gate is closed: look the version up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Closed;

const CLOSED: usize = 1;
const ONE: usize = 2;

impl Gate {
    /// Goes in. Whoever did must [`Gate::leave`].
    ///
    /// # Errors
    /// [`Closed`].
    pub(crate) fn enter(&self) -> Result<(), Closed> {
        let before = self.state.fetch_add(ONE, Ordering::AcqRel);
        if before & CLOSED == 0 {
            return Ok(());
        }
        self.leave();
        Err(Closed)
    }

    /// Goes out.
    pub(crate) fn leave(&self) {
        let before = self.state.fetch_sub(ONE, Ordering::AcqRel);
        if before == ONE + CLOSED {
            // Stored if nobody waits yet; there is one waiter at most.
            self.empty.notify_one();
        }
    }

    /// Lets nobody in any more and waits until all are out.
    pub(crate) async fn close(&self) {
        self.state.fetch_or(CLOSED, Ordering::AcqRel);
        while self.state.load(Ordering::Acquire) != CLOSED {
            self.empty.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn closing_waits_for_those_inside() {
        let gate = Gate::default();
        gate.enter().unwrap();
        gate.enter().unwrap();
        let mut closing = Box::pin(gate.close());
        assert!(futures_util::poll!(&mut closing).is_pending());
        assert_eq!(gate.enter(), Err(Closed));
        gate.leave();
        assert!(futures_util::poll!(&mut closing).is_pending());
        gate.leave();
        closing.await;
    }
}

//! Inline runs: the thread that queued a batch runs it itself, on the device of a sleeping worker.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use crate::shared::{Shared, State};
use crate::{Item, Work, clock};

/// The use of an idle [`crate::Worker`]'s device by another thread. The worker sleeps until the run ends; then it is
/// woken if a batch is due.
///
/// If a batch takes less time than waking a thread, the caller that queued it runs it itself.
pub struct InlineRun<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    number: usize,
    limit: Duration,
    first: Option<Work<I, O>>,
    ended: bool,
}

/// The outcome of [`crate::Batcher::start_inline_if_alone`].
pub enum InlineStart<I: Item, O: Send + 'static> {
    /// The run has started, and the caller runs the batch.
    Started(InlineRun<I, O>),
    /// Other items are queued as well.
    NotAlone {
        /// Measured time of the batch that would run now, if known.
        expected: Option<Duration>,
    },
    /// A worker must run the batch: no worker is idle, or the batch is not known to be short.
    Declined,
}

impl<I: Item, O: Send + 'static> InlineRun<I, O> {
    /// Claims the device of any idle worker if there is a batch known to take at most `limit`.
    pub(crate) fn start(
        shared: &Arc<Shared<I, O>>,
        mut state: MutexGuard<'_, State<I, O>>,
        limit: Duration,
    ) -> Option<Self> {
        let &number = state.idle.last()?;
        let now = clock::now();
        state.assembler.expected(now).filter(|run| *run <= limit)?;
        let batch = state.assembler.next(now).batch()?;
        state.idle.pop();
        state.sleeping -= 1;
        // A pending wake-up was for this batch, which is taken here, so a further batch needs its own.
        state.wakeup_pending = false;
        let first = Some(Work::hand_out(shared, state, batch, now));
        Some(Self { shared: Arc::clone(shared), number, limit, first, ended: false })
    }

    /// Returns the number of the worker whose device is used.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Takes the next batch if it is known to take at most the run's limit.
    pub fn pull(&mut self) -> Option<Work<I, O>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let mut state = self.shared.lock();
        let now = clock::now();
        let limit = self.limit;
        state.assembler.expected(now).filter(|run| *run <= limit)?;
        let batch = state.assembler.next(now).batch()?;
        Some(Work::hand_out(&self.shared, state, batch, now))
    }

    /// Returns the measured time of the run's next batch; `None` if there is none.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        let mut state = self.shared.lock();
        let run = state.assembler.expected(clock::now());
        run.filter(|run| *run <= self.limit)
    }

    /// Returns the run if another short batch is due, otherwise ends it.
    #[must_use]
    pub fn continue_or_end(mut self) -> Option<Self> {
        if self.first.is_some() {
            return Some(self);
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let next = state.assembler.expected(clock::now());
        if next.is_some_and(|run| run <= self.limit) {
            return Some(self);
        }
        self.release(state);
        None
    }

    /// Returns the device to its worker.
    fn release(&mut self, mut state: MutexGuard<'_, State<I, O>>) {
        self.ended = true;
        state.idle.push(self.number);
        state.sleeping += 1;
        // The workers of a closed queue must check if they may end.
        let wake = self.shared.is_closed() || state.needs_wakeup(clock::now());
        drop(state);
        if wake {
            self.shared.due.notify_all();
        }
    }
}

impl<I: Item, O: Send + 'static> Drop for InlineRun<I, O> {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        // Dropping the batch answers its items, before the worker may run again.
        drop(self.first.take());
        let shared = Arc::clone(&self.shared);
        self.release(shared.lock());
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::{Batcher, Policy, Terms};

    const LIMIT: Duration = Duration::from_millis(1);

    struct Row;

    impl Item for Row {
        type Group = ();

        fn weight(&self) -> usize {
            1
        }

        fn group(&self) {}
    }

    /// Submits an item and awaits its answer, with the same calls as a server.
    async fn lone_request(batcher: &Batcher<Row, u8>) {
        let mut ticket = batcher.submit(Row, Terms::default()).unwrap();
        assert!(ticket.wakes_worker());
        assert!(batcher.expected().is_some_and(|run| run <= LIMIT));
        let InlineStart::Started(mut run) = batcher.start_inline_if_alone(&mut ticket, LIMIT) else {
            panic!("a worker is idle, and the batch is short");
        };
        run.pull().unwrap().answer(vec![7]);
        assert!(run.continue_or_end().is_none());
        assert_eq!(ticket.await, Ok(7));
    }

    #[tokio::test]
    async fn a_lone_short_request_takes_the_lock_five_times_at_most() {
        let batcher = Batcher::new(Policy::new(4), Arc::new(()));
        batcher.record(&(), 1, LIMIT / 2);
        let mut worker = batcher.inline_worker(0);
        let device = thread::spawn(move || worker.pull().is_none());
        let shared = Arc::clone(batcher.shared());
        while shared.lock().idle.is_empty() {
            thread::yield_now();
        }
        let (requests, before) = (3, shared.locks());
        for _ in 0..requests {
            lone_request(&batcher).await;
        }
        let taken = shared.locks() - before;
        assert!(taken <= 5 * requests, "{taken} locks for {requests} requests");
        batcher.close();
        assert!(device.join().unwrap());
    }
}

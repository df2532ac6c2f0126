//! Batches that the thread which queued them runs itself, on the device of a worker that sleeps.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::MutexGuard;

use crate::shared::{Shared, State};
use crate::{Item, Work, clock};

/// The use of an idle [`crate::Worker`]'s device by another thread. Until it ends the worker sleeps on;
/// then the worker is woken for what is due.
///
/// Where a batch takes less time than waking a thread, the caller that queued it runs it itself.
pub struct InlineRun<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    number: usize,
    limit: Duration,
    first: Option<Work<I, O>>,
    ended: bool,
}

/// The outcome of [`crate::Batcher::start_inline_if_alone`].
pub enum InlineStart<I: Item, O: Send + 'static> {
    /// The caller runs the batch.
    Started(InlineRun<I, O>),
    /// Other items are queued too.
    NotAlone {
        /// Time that the batch to run now will take, where that was measured.
        expected: Option<Duration>,
    },
    /// A worker has to run it: none is idle, or the batch is not known to be short.
    Declined,
}

impl<I: Item, O: Send + 'static> InlineRun<I, O> {
    /// Claims any idle worker's device, if there is a batch known to take at most `limit`.
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
        // A wake-up on its way would find this batch taken.
        state.wakeup_pending = false;
        let first = Some(Work::hand_out(shared, state, batch, now));
        Some(Self { shared: Arc::clone(shared), number, limit, first, ended: false })
    }

    /// The number of the worker whose device it uses.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The next batch, if it is known to be as short as the first had to be.
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

    /// Time that the next batch of this run will take; `None` where there is none.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        let mut state = self.shared.lock();
        let run = state.assembler.expected(clock::now());
        run.filter(|run| *run <= self.limit)
    }

    /// Returns the run if another short batch is due, and ends it otherwise.
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

    /// Gives the device back to its worker.
    fn release(&mut self, mut state: MutexGuard<'_, State<I, O>>) {
        self.ended = true;
        state.idle.push(self.number);
        state.sleeping += 1;
        // The workers of a closed queue have to see whether they may end.
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
        // Answers before the worker may run again.
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

    /// From submission to the answer, in the order of a server's calls.
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

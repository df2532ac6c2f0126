//! A sleeping device's place in the queue, taken over by who brings the work.

use std::sync::Arc;
use std::time::Duration;

use crate::batcher::{Shared, Stage, Waking};
use crate::{Item, Work, clock};

/// The place of a [`crate::Puller`] that sleeps. While it is lent, its own thread stays asleep; when the
/// loan ends, that thread is woken for what is due by then.
///
/// Where a batch takes less time than waking a thread, the caller that queued it runs it itself.
pub struct Loan<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    number: usize,
    limit: Duration,
    first: Option<Work<I, O>>,
}

impl<I: Item, O: Send + 'static> Loan<I, O> {
    /// A loan of any place whose owner sleeps, if there is a batch known to take at most `limit`.
    pub(crate) fn take(shared: &Arc<Shared<I, O>>, limit: Duration) -> Option<Self> {
        let mut state = shared.state.lock();
        let &number = state.resting.last()?;
        let now = clock::now();
        state.assembler.expected(now).filter(|run| *run <= limit)?;
        let batch = state.assembler.next(now).batch()?;
        state.resting.pop();
        state.asleep -= 1;
        // Whoever was to wake the owner has been taken over.
        state.waking = Waking::No;
        let first = Some(shared.leave(state, batch, now));
        Some(Self {
            shared: Arc::clone(shared),
            number,
            limit,
            first,
        })
    }

    /// Whose place it is: the number that puller was made with.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The next batch, as long as it is known to be as brief as was asked for.
    pub fn pull(&mut self) -> Option<Work<I, O>> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let mut state = self.shared.state.lock();
        let now = clock::now();
        let limit = self.limit;
        state.assembler.expected(now).filter(|run| *run <= limit)?;
        let batch = state.assembler.next(now).batch()?;
        Some(self.shared.leave(state, batch, now))
    }

    /// How long the batch that this loan could run now will take; `None` where there is none.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        let mut state = self.shared.state.lock();
        let run = state.assembler.expected(clock::now());
        run.filter(|run| *run <= self.limit)
    }
}

impl<I: Item, O: Send + 'static> Drop for Loan<I, O> {
    fn drop(&mut self) {
        // Answers before the owner may run again.
        drop(self.first.take());
        let mut state = self.shared.state.lock();
        state.resting.push(self.number);
        state.asleep += 1;
        // Of a closed queue, they look whether they may end.
        let wake = state.stage == Stage::Closed || state.wants_waking(clock::now());
        drop(state);
        if wake {
            self.shared.due.notify_all();
        }
    }
}

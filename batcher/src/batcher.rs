//! The interface for callers: submit an item, await its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::shared::{Queued, Shared, State};
use crate::ticket::{Admission, TicketQueue};
use crate::{
    ExpiredItem, Id, InlineRun, InlineStart, Item, Observer, Policy, SubmitError, Terms, Ticket, Worker, clock,
};

/// A queue between callers and the devices that answer them. Cheap to clone; when the last clone is
/// dropped it is closed.
pub struct Batcher<I: Item, O: Send + 'static> {
    handle: Arc<Handle<I, O>>,
}

impl<I: Item, O: Send + 'static> Clone for Batcher<I, O> {
    fn clone(&self) -> Self {
        let handle = Arc::clone(&self.handle);
        Self { handle }
    }
}

/// Closes the queue when the last [`Batcher`] goes; workers and tickets do not keep it open.
struct Handle<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
}

impl<I: Item, O: Send + 'static> Batcher<I, O> {
    /// An empty queue under this policy. Nothing runs before a [`Worker`] pulls.
    #[must_use]
    pub fn new(policy: Policy, observer: Arc<dyn Observer>) -> Self {
        let shared = Arc::new(Shared::new(policy, observer));
        let handle = Arc::new(Handle { shared });
        Self { handle }
    }

    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Arc<Shared<I, O>> {
        &self.handle.shared
    }

    /// Queues an item and returns the future of its answer. Never waits. An idle worker is woken when
    /// the ticket is first polled; see [`Ticket::wakes_worker`]. Dropping the ticket takes the item out
    /// of the queue.
    ///
    /// # Errors
    /// [`SubmitError`] at once when the queue is full or closed, or when the item would be late.
    pub fn submit(&self, item: I, terms: Terms) -> Result<Ticket<O>, SubmitError> {
        let shared = &self.handle.shared;
        let (reply, answer) = oneshot::channel();
        let (admitted, expired) = self.admit(Queued { item, reply }, terms);
        shared.send_expired(expired);
        match admitted {
            Ok(Admitted { admission, queued }) => {
                shared.observer.admitted(queued);
                let queue: Arc<dyn TicketQueue> = Arc::clone(shared) as _;
                Ok(Ticket::new(queue, answer, admission))
            }
            Err(error) => {
                shared.observer.refused(&error);
                Err(error)
            }
        }
    }

    /// The queue's part of a submission, and the items that were found to be over on the way.
    fn admit(
        &self,
        item: Queued<I, O>,
        terms: Terms,
    ) -> (Result<Admitted, SubmitError>, Vec<ExpiredItem<Queued<I, O>>>) {
        let mut state = self.handle.shared.lock();
        let now = clock::now();
        let admitted = state.assembler.admit(item, terms, now);
        let expired = state.assembler.expire(now);
        let admitted = admitted.map(|id| state.admitted(id, now, terms.deadline));
        drop(state);
        // A refused item is dropped here, not under the lock.
        (admitted.map_err(|refused| refused.error), expired)
    }

    /// A new device's access to the queue.
    #[must_use]
    pub fn worker(&self) -> Worker<I, O> {
        Worker::new(Arc::clone(&self.handle.shared), None)
    }

    /// As [`Batcher::worker`], for a device that other threads may use while this worker sleeps: an
    /// [`InlineRun`] on it bears that number, which no other worker of this queue may have.
    #[must_use]
    pub fn inline_worker(&self, number: usize) -> Worker<I, O> {
        Worker::new(Arc::clone(&self.handle.shared), Some(number))
    }

    /// Starts an inline run of the batch for which a ticket was to wake a worker, if that batch is known
    /// to take at most `limit` and an idle worker allows inline runs. The ticket then wakes no one.
    #[must_use]
    pub fn start_inline(&self, ticket: &mut Ticket<O>, limit: Duration) -> Option<InlineRun<I, O>> {
        let shared = &self.handle.shared;
        let run = InlineRun::start(shared, shared.lock(), limit)?;
        ticket.cancel_wakeup();
        Some(run)
    }

    /// As [`Batcher::start_inline`], unless more items than one are queued.
    #[must_use]
    pub fn start_inline_if_alone(&self, ticket: &mut Ticket<O>, limit: Duration) -> InlineStart<I, O> {
        let shared = &self.handle.shared;
        let mut state = shared.lock();
        if state.assembler.queued() > 1 {
            let expected = state.assembler.expected(clock::now());
            return InlineStart::NotAlone { expected };
        }
        let Some(run) = InlineRun::start(shared, state, limit) else {
            return InlineStart::Declined;
        };
        ticket.cancel_wakeup();
        InlineStart::Started(run)
    }

    /// Time that the batch to run now will take, as measured; `None` where there is none, or nothing was
    /// measured.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        let mut state = self.handle.shared.lock();
        state.assembler.expected(clock::now())
    }

    /// Has no item wait for companions any more, those queued and those to come: call it when few will come.
    pub fn hurry(&self) {
        self.handle.shared.hurry();
    }

    /// Stops admitting. Workers get what is queued, without delay, and then `None`. What is queued
    /// while there is no worker is answered [`SubmitError::Lost`]: no one is there to run it.
    pub fn close(&self) {
        self.handle.shared.close();
    }

    /// Answers everything that is queued [`SubmitError::Draining`], and goes on admitting: its devices are
    /// stuck, and whoever asked may ask elsewhere.
    pub fn turn_away(&self) {
        self.handle.shared.turn_away();
    }

    /// Waits until the queue is closed and everything admitted has been answered.
    pub async fn drained(&self) {
        self.handle.shared.drained().await;
    }

    /// Number of items in the queue; those on a device are not.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.handle.shared.lock().assembler.queued()
    }

    /// Wait for a device of an item of default priority, submitted now.
    #[must_use]
    pub fn predicted_wait(&self) -> Duration {
        let state = self.handle.shared.lock();
        state.assembler.predicted_wait(0, clock::now())
    }

    /// Records what a batch took outside of a [`crate::Work`], such as in a warm-up.
    pub fn record(&self, group: &I::Group, weight: usize, elapsed: Duration) {
        let mut state = self.handle.shared.lock();
        state.assembler.record(group, weight, elapsed);
    }
}

impl<I: Item, O: Send + 'static> Drop for Handle<I, O> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

/// An item that was queued.
struct Admitted {
    admission: Admission,
    /// Items in the queue, this one included.
    queued: usize,
}

impl<I: Item, O: Send + 'static> State<I, O> {
    fn admitted(&mut self, id: Id, submitted: Instant, deadline: Option<Instant>) -> Admitted {
        let queued = self.assembler.queued();
        let admission = Admission {
            id,
            submitted,
            expires_at: self.assembler.expires_at(id),
            deadline,
            wakes_worker: self.needs_wakeup(submitted),
        };
        Admitted { admission, queued }
    }
}

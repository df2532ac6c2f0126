//! Interface for callers, which submit items and await their answers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::shared::{Queued, Shared, State};
use crate::ticket::{Admission, TicketQueue};
use crate::{
    ExpiredItem, Id, InlineRun, InlineStart, Item, Observer, Policy, SubmitError, Terms, Ticket, Worker, clock,
};

/// A queue between callers and the devices that process their items. Clones are cheap and share the queue, which closes
/// when the last one is dropped.
pub struct Batcher<I: Item, O: Send + 'static> {
    handle: Arc<Handle<I, O>>,
}

impl<I: Item, O: Send + 'static> Clone for Batcher<I, O> {
    fn clone(&self) -> Self {
        let handle = Arc::clone(&self.handle);
        Self { handle }
    }
}

/// Closes the queue when the last [`Batcher`] is dropped; workers and tickets do not keep it open.
struct Handle<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
}

impl<I: Item, O: Send + 'static> Batcher<I, O> {
    /// Returns an empty queue with this policy. Nothing runs until a [`Worker`] pulls.
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

    /// Queues an item and returns the future of its answer, without waiting. An idle worker is woken when the ticket is
    /// first polled; see [`Ticket::wakes_worker`]. Dropping the ticket removes the item from the queue.
    ///
    /// # Errors
    /// [`SubmitError`] at once if the queue is full or closed, or if the item would be late.
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

    /// Admits the item under the queue's lock. Also returns the items that have expired meanwhile.
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
        // A refused item is dropped here, after the lock is released.
        (admitted.map_err(|refused| refused.error), expired)
    }

    /// Returns a worker that takes batches for a new device.
    #[must_use]
    pub fn worker(&self) -> Worker<I, O> {
        Worker::new(Arc::clone(&self.handle.shared), None)
    }

    /// Returns a worker like [`Batcher::worker`], for a device that other threads may use while this worker sleeps. An
    /// [`InlineRun`] on the device has this number, which no other worker of the queue may have.
    #[must_use]
    pub fn inline_worker(&self, number: usize) -> Worker<I, O> {
        Worker::new(Arc::clone(&self.handle.shared), Some(number))
    }

    /// Starts an inline run of the batch for which `ticket` would wake a worker. Returns `None` unless the batch is
    /// known to take at most `limit` and an idle worker allows inline runs. After a start, the ticket no longer wakes a
    /// worker.
    #[must_use]
    pub fn start_inline(&self, ticket: &mut Ticket<O>, limit: Duration) -> Option<InlineRun<I, O>> {
        let shared = &self.handle.shared;
        let run = InlineRun::start(shared, shared.lock(), limit)?;
        ticket.cancel_wakeup();
        Some(run)
    }

    /// Starts an inline run like [`Batcher::start_inline`], but only if at most one item is queued.
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

    /// Returns the measured time of the batch that would run now; `None` if there is none or it was never measured.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        let mut state = self.handle.shared.lock();
        state.assembler.expected(clock::now())
    }

    /// Stops waiting for more items to join a batch, for queued and future items. Call this if few more will come.
    pub fn flush(&self) {
        self.handle.shared.flush();
    }

    /// Closes the queue for new items. Workers receive the queued items without delay, and then `None`. If there is no
    /// worker, queued items are answered with [`SubmitError::Lost`], because nothing would run them.
    pub fn close(&self) {
        self.handle.shared.close();
    }

    /// Answers all queued items with [`SubmitError::Draining`] but still admits new ones: the devices are stuck, and
    /// the callers may retry elsewhere.
    pub fn refuse_queued(&self) {
        self.handle.shared.refuse_queued();
    }

    /// Waits until the queue is closed and all admitted items have been answered.
    pub async fn drained(&self) {
        self.handle.shared.drained().await;
    }

    /// Returns the number of queued items, not including those on a device.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.handle.shared.lock().assembler.queued()
    }

    /// Returns the predicted wait for a device, for an item of default priority that is submitted now.
    #[must_use]
    pub fn predicted_wait(&self) -> Duration {
        let state = self.handle.shared.lock();
        state.assembler.predicted_wait(0, clock::now())
    }

    /// Returns the weight of the largest batch for which the device has memory; see [`crate::Assembler::memory_bound`].
    #[must_use]
    pub fn memory_bound(&self) -> Option<usize> {
        self.handle.shared.lock().assembler.memory_bound(clock::now())
    }

    /// Limits batches of the group to the weight `fits`, because a larger one ran out of the device's memory outside of
    /// a [`crate::Work`], such as in a warm-up.
    pub fn ran_out_of_memory(&self, group: &I::Group, fits: usize) {
        let now = clock::now();
        self.handle.shared.lock().assembler.ran_out_of_memory(group, fits, now);
    }

    /// Records the time of a batch that ran outside of a [`crate::Work`], such as in a warm-up.
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
    /// Number of items in the queue, including this one.
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

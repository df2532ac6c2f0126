//! A batch that a worker has taken, until its items are answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use crate::shared::{Queued, Reply, Shared, State};
use crate::{Batch, BatchStats, Id, Item, SubmitError, clock};

/// A batch taken from the queue, to be answered. If it is dropped without an answer, for example by a panic, each of
/// its items is answered with [`SubmitError::Lost`].
pub struct Work<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    group: I::Group,
    number: u64,
    weight: usize,
    expected: Duration,
    started: Instant,
    items: Vec<I>,
    arrivals: Vec<(Id, Instant)>,
    callers: Arc<Callers<O>>,
    is_reported: bool,
}

/// Callers that wait for a batch's answers, in the order of its items; empty once they are answered.
type Callers<O> = Mutex<Vec<(Id, Reply<O>)>>;

/// The callers of a batch that may never end, to be answered from another thread.
pub struct BatchCallers<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    callers: Arc<Callers<O>>,
}

impl<I: Item, O: Send + 'static> BatchCallers<I, O> {
    /// Answers every caller that still waits, instead of the batch, whose own answers are then discarded. Returns the
    /// number of these callers.
    pub fn answer(&self, answer: impl Fn() -> O) -> usize {
        let callers = std::mem::take(&mut *self.callers.lock());
        let count = callers.len();
        let answers = callers.into_iter();
        self.shared.send(answers.map(|(id, reply)| (id, (reply, Ok(answer())))));
        self.shared.answered(count);
        count
    }
}

impl<I: Item, O: Send + 'static> Work<I, O> {
    /// Hands a batch out, and wakes another worker if a further batch is due.
    pub(crate) fn hand_out(
        shared: &Arc<Shared<I, O>>,
        mut state: MutexGuard<'_, State<I, O>>,
        batch: Batch<Queued<I, O>>,
        now: Instant,
    ) -> Self {
        shared.handed_out(batch.members.len());
        let queued = state.assembler.queued();
        let wake = state.needs_wakeup(now);
        drop(state);
        if wake {
            shared.due.notify_one();
        }
        shared.observer.formed(&BatchStats { weight: batch.weight, items: batch.members.len(), queued });
        Self::new(Arc::clone(shared), batch)
    }

    fn new(shared: Arc<Shared<I, O>>, batch: Batch<Queued<I, O>>) -> Self {
        let count = batch.members.len();
        let (mut items, mut callers) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut arrivals = Vec::with_capacity(count);
        for member in batch.members {
            let Queued { item, reply } = member.item;
            items.push(item);
            callers.push((member.id, reply));
            arrivals.push((member.id, member.arrived));
        }
        Self {
            shared,
            group: batch.group,
            number: batch.number,
            weight: batch.weight,
            expected: batch.expected,
            started: batch.formed,
            items,
            arrivals,
            callers: Arc::new(Mutex::new(callers)),
            is_reported: false,
        }
    }

    /// Returns a handle to the batch's callers, for a thread that watches if the batch ends.
    #[must_use]
    pub fn callers(&self) -> BatchCallers<I, O> {
        BatchCallers { shared: Arc::clone(&self.shared), callers: Arc::clone(&self.callers) }
    }

    /// Returns the items in order.
    #[must_use]
    pub fn items(&self) -> &[I] {
        &self.items
    }

    /// Returns the number of items to answer.
    #[must_use]
    pub fn count(&self) -> usize {
        self.arrivals.len()
    }

    /// Returns the total weight of the items.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// Returns the expected time on the device; zero if it is unknown.
    #[must_use]
    pub fn expected(&self) -> Duration {
        self.expected
    }

    /// Returns the time at which the batch was formed.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Returns the admission time of each item, in order.
    pub fn arrivals(&self) -> impl ExactSizeIterator<Item = Instant> + '_ {
        self.arrivals.iter().map(|(_, arrived)| *arrived)
    }

    /// Returns the identity of each item in the queue, in order.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = Id> + '_ {
        self.arrivals.iter().map(|(id, _)| *id)
    }

    /// Limits later batches of the group to the weight `fits`, because this one ran out of the device's memory, and
    /// `fits` is the weight of its largest part that ran; see [`crate::Assembler::ran_out_of_memory`].
    pub fn ran_out_of_memory(&self, fits: usize) {
        let now = clock::now();
        self.shared.lock().assembler.ran_out_of_memory(&self.group, fits, now);
    }

    /// Answers the items in order, and records the time since [`Work::started`] as the time of such a batch. Items
    /// without an answer get [`SubmitError::Lost`].
    pub fn answer(self, answers: Vec<O>) {
        let elapsed = clock::now().saturating_duration_since(self.started);
        self.answer_after(answers, Some(elapsed));
    }

    /// Answers the items like [`Work::answer`], and records `elapsed` as the time on the device. `None` records
    /// nothing, for a failed batch, whose time does not predict that of others.
    pub fn answer_after(mut self, answers: Vec<O>, elapsed: Option<Duration>) {
        self.finish(answers, elapsed);
    }

    fn finish(&mut self, answers: Vec<O>, elapsed: Option<Duration>) {
        self.report(elapsed);
        let callers = std::mem::take(&mut *self.callers.lock());
        let count = callers.len();
        let answers = answers.into_iter().map(Ok);
        let lost = std::iter::repeat_with(|| Err(SubmitError::Lost));
        let answers = callers.into_iter().zip(answers.chain(lost));
        self.shared.send(answers.map(|((id, reply), answer)| (id, (reply, answer))));
        self.shared.answered(count);
    }

    /// Reports the end of the batch before its answers are sent, so that the next request finds a free device.
    fn report(&mut self, elapsed: Option<Duration>) {
        self.is_reported = true;
        let now = clock::now();
        let mut state = self.shared.lock();
        state.assembler.finished(self.number, now);
        if let Some(elapsed) = elapsed {
            state.assembler.record(&self.group, self.weight, elapsed);
        }
        drop(state);
        self.shared.ended.notify_all();
    }
}

impl<I: Item, O: Send + 'static> Drop for Work<I, O> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.finish(Vec::new(), None);
        }
    }
}

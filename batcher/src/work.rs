//! A batch on its device.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::batcher::{Queued, Reply, Shared};
use crate::{Batch, Id, Item, SubmitError, clock};

/// A batch that was taken, to be answered. Dropped unanswered, such as by a panic, it answers each
/// of its items [`SubmitError::Lost`].
pub struct Work<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
    group: I::Group,
    number: u64,
    weight: usize,
    expected: Duration,
    started: Instant,
    items: Vec<I>,
    seats: Vec<Seat<O>>,
}

/// Where one item's answer goes.
pub(crate) struct Seat<O> {
    pub(crate) id: Id,
    pub(crate) reply: Reply<O>,
    arrived: Instant,
}

impl<I: Item, O: Send + 'static> Work<I, O> {
    pub(crate) fn new(shared: Arc<Shared<I, O>>, batch: Batch<Queued<I, O>>) -> Self {
        let count = batch.members.len();
        let (mut items, mut seats) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for member in batch.members {
            let Queued { item, reply } = member.item;
            let (id, arrived) = (member.id, member.arrived);
            items.push(item);
            seats.push(Seat { id, reply, arrived });
        }
        Self {
            shared,
            group: batch.group,
            number: batch.number,
            weight: batch.weight,
            expected: batch.expected,
            started: batch.formed,
            items,
            seats,
        }
    }

    /// Says that its device is busy until `free_at`.
    pub(crate) fn starts(&self, free_at: Instant) {
        let start = free_at.max(self.started);
        let mut state = self.shared.state.lock();
        state.assembler.starts(self.number, start, self.expected);
    }

    /// The items in their order; none after [`Work::take_items`].
    #[must_use]
    pub fn items(&self) -> &[I] {
        &self.items
    }

    /// The items in their order, for keeps.
    #[must_use]
    pub fn take_items(&mut self) -> Vec<I> {
        std::mem::take(&mut self.items)
    }

    /// How many items there are to answer.
    #[must_use]
    pub fn count(&self) -> usize {
        self.seats.len()
    }

    /// The sum of their weights.
    #[must_use]
    pub fn weight(&self) -> usize {
        self.weight
    }

    /// The group they are of.
    #[must_use]
    pub fn group(&self) -> &I::Group {
        &self.group
    }

    /// How long its device is expected to take; zero where nothing is known.
    #[must_use]
    pub fn expected(&self) -> Duration {
        self.expected
    }

    /// When the batch was formed.
    #[must_use]
    pub fn started(&self) -> Instant {
        self.started
    }

    /// When each item was admitted, in their order.
    pub fn arrivals(&self) -> impl ExactSizeIterator<Item = Instant> + '_ {
        self.seats.iter().map(|seat| seat.arrived)
    }

    /// Whether the caller of that item still waits for an answer.
    #[must_use]
    pub fn is_wanted(&self, item: usize) -> bool {
        self.seats
            .get(item)
            .is_some_and(|seat| !seat.reply.is_closed())
    }

    /// Answers the items, in their order, and takes in the time since [`Work::started`] as what such a
    /// batch takes. Items without an answer are [`SubmitError::Lost`].
    pub fn answer(self, answers: Vec<O>) {
        let elapsed = clock::now().saturating_duration_since(self.started);
        self.answer_after(answers, Some(elapsed));
    }

    /// As [`Work::answer`] for those who know better what the device took, or know that this batch
    /// says nothing of others like it, because it failed.
    pub fn answer_after(mut self, answers: Vec<O>, elapsed: Option<Duration>) {
        self.settle(answers, elapsed);
    }

    fn settle(&mut self, answers: Vec<O>, elapsed: Option<Duration>) {
        let seats = std::mem::take(&mut self.seats);
        let count = seats.len();
        self.report(elapsed);
        let answers = answers.into_iter().map(Ok);
        let lost = std::iter::repeat_with(|| Err(SubmitError::Lost));
        self.shared
            .answer(seats.into_iter().zip(answers.chain(lost)));
        // Only now: who waits for the drain may end the runtime that the answers need.
        self.shared.state.lock().held -= count;
        self.shared.tell_if_drained();
    }

    /// Before the answers leave: whoever asks next then meets a free device.
    fn report(&self, elapsed: Option<Duration>) {
        let mut state = self.shared.state.lock();
        state.assembler.finished(self.number);
        if let Some(elapsed) = elapsed {
            state.assembler.record(&self.group, self.weight, elapsed);
        }
    }
}

impl<I: Item, O: Send + 'static> Drop for Work<I, O> {
    fn drop(&mut self) {
        if !self.seats.is_empty() {
            self.settle(Vec::new(), None);
        }
    }
}

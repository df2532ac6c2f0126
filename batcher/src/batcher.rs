//! The face callers see: submit an item, await its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use crate::ticket::{Call, Claim, Claims};
use crate::work::Seat;
use crate::{
    Assembler, Batch, Due, Formed, Id, Item, Lapsed, Loan, Observer, Ordering, Policy, Puller,
    Sequence, SubmitError, Terms, Ticket, Work, clock,
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

/// Closes the queue when the last [`Batcher`] goes; pullers and tickets do not keep it open.
struct Handle<I: Item, O: Send + 'static> {
    shared: Arc<Shared<I, O>>,
}

/// What callers, tickets and pullers share.
pub(crate) struct Shared<I: Item, O: Send + 'static> {
    pub(crate) state: Mutex<State<I, O>>,
    /// Something is due, or the queue closed.
    pub(crate) due: Condvar,
    pub(crate) observer: Arc<dyn Observer>,
    /// Where answers wait for earlier ones; sent under its lock, or they could pass each other.
    sequence: Option<Mutex<Sequence<Answer<O>>>>,
    drained: Notify,
}

pub(crate) struct State<I: Item, O: Send + 'static> {
    pub(crate) assembler: Assembler<Queued<I, O>>,
    pub(crate) stage: Stage,
    /// Pullers that exist.
    pub(crate) pullers: usize,
    /// Pullers that wait for something to become due, woken and not yet running included.
    pub(crate) asleep: usize,
    /// The numbers of those among them whose place can be lent.
    pub(crate) resting: Vec<usize>,
    /// Whether a wake-up is under way: whoever gets the lock for it sees all that came since.
    pub(crate) waking: Waking,
    /// When the puller wakes that waits for a moment.
    pub(crate) alarm: Option<Instant>,
    /// Items that pullers hold.
    pub(crate) held: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waking {
    No,
    UnderWay,
}

/// An item and the way back to its caller.
pub(crate) struct Queued<I, O> {
    pub(crate) item: I,
    pub(crate) reply: Reply<O>,
}

pub(crate) type Reply<O> = oneshot::Sender<Result<O, SubmitError>>;

type Answer<O> = (Reply<O>, Result<O, SubmitError>);

impl<I: Item, O: Send + 'static> Item for Queued<I, O> {
    type Group = I::Group;

    fn weight(&self) -> usize {
        self.item.weight()
    }

    fn group(&self) -> I::Group {
        self.item.group()
    }
}

impl<I: Item, O: Send + 'static> Batcher<I, O> {
    /// An empty queue under this policy. Nothing runs before a [`Puller`] pulls.
    #[must_use]
    pub fn new(policy: Policy, observer: Arc<dyn Observer>) -> Self {
        let sequence = match policy.ordering {
            Ordering::Completion => None,
            Ordering::Admission => Some(Mutex::default()),
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(policy)),
            due: Condvar::new(),
            observer,
            sequence,
            drained: Notify::new(),
        });
        let handle = Arc::new(Handle { shared });
        Self { handle }
    }

    /// Queues an item and returns the future of its answer. Never waits. A device that sleeps is woken
    /// when the ticket is first polled; see [`Ticket::will_wake`]. Dropping the ticket takes the item
    /// out of the queue.
    ///
    /// # Errors
    /// [`SubmitError`] at once when the queue is full or closed, or when the item would be late.
    pub fn submit(&self, item: I, terms: Terms) -> Result<Ticket<O>, SubmitError> {
        let shared = &self.handle.shared;
        let (reply, answer) = oneshot::channel();
        let (admitted, lapsed) = shared.admit(Queued { item, reply }, terms);
        shared.lapse(lapsed);
        match admitted {
            Ok(admitted) => {
                shared.observer.admitted(admitted.queued);
                let claims: Arc<dyn Claims> = Arc::clone(shared) as _;
                Ok(Ticket::new(claims, answer, admitted.claim, admitted.call))
            }
            Err(error) => {
                shared.observer.refused(&error);
                Err(error)
            }
        }
    }

    /// A new device's access to the queue.
    #[must_use]
    pub fn puller(&self) -> Puller<I, O> {
        Puller::new(Arc::clone(&self.handle.shared), None)
    }

    /// As [`Batcher::puller`], for a device that others may use while this puller sleeps: a [`Loan`] of
    /// its place bears that number, which no other puller of this queue may have.
    #[must_use]
    pub fn lending_puller(&self, number: usize) -> Puller<I, O> {
        Puller::new(Arc::clone(&self.handle.shared), Some(number))
    }

    /// Takes over what a ticket was to wake a device for, if that is a batch known to take at most
    /// `limit` and the device is one that lends its place. The ticket then wakes no one.
    #[must_use]
    pub fn take_over(&self, ticket: &mut Ticket<O>, limit: Duration) -> Option<Loan<I, O>> {
        let loan = Loan::take(&self.handle.shared, limit)?;
        ticket.relieve();
        Some(loan)
    }

    /// How long the batch to run now will take, by what was measured; `None` where there is none, or nothing
    /// was measured.
    #[must_use]
    pub fn expected(&self) -> Option<Duration> {
        let mut state = self.handle.shared.state.lock();
        state.assembler.expected(clock::now())
    }

    /// Stops admitting. Pullers get what is queued, without delay, and then `None`. What is queued
    /// while there is no puller is answered [`SubmitError::Lost`]: no one is there to run it.
    pub fn close(&self) {
        self.handle.shared.close();
    }

    /// Waits until the queue is closed and everything admitted has been answered.
    pub async fn drained(&self) {
        let shared = &self.handle.shared;
        loop {
            let notified = shared.drained.notified();
            if shared.state.lock().is_drained() {
                return;
            }
            notified.await;
        }
    }

    /// How many items are queued; those on a device are not.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.handle.shared.state.lock().assembler.queued()
    }

    /// How long an item of default priority, submitted now, would wait for a device.
    #[must_use]
    pub fn predicted_wait(&self) -> Duration {
        let state = self.handle.shared.state.lock();
        state.assembler.predicted_wait(0, clock::now())
    }

    /// Takes in what a batch took outside of a [`crate::Work`], such as in a warm-up.
    pub fn record(&self, group: &I::Group, weight: usize, elapsed: Duration) {
        let mut state = self.handle.shared.state.lock();
        state.assembler.record(group, weight, elapsed);
    }
}

impl<I: Item, O: Send + 'static> Drop for Handle<I, O> {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl<I: Item, O: Send + 'static> State<I, O> {
    fn new(policy: Policy) -> Self {
        Self {
            assembler: Assembler::new(policy),
            stage: Stage::Open,
            pullers: 0,
            asleep: 0,
            resting: Vec::new(),
            waking: Waking::No,
            alarm: None,
            held: 0,
        }
    }

    fn admitted(&mut self, id: Id, submitted: Instant, deadline: Option<Instant>) -> Admitted {
        let claim = Claim {
            id,
            submitted,
            end: self.assembler.expires_at(id),
            deadline,
        };
        let queued = self.assembler.queued();
        let call = if self.wants_waking(submitted) {
            Call::Due
        } else {
            Call::Settled
        };
        Admitted {
            claim,
            queued,
            call,
        }
    }

    /// Whether a sleeping puller has to be woken for what is due; remembers that it is.
    pub(crate) fn wants_waking(&mut self, now: Instant) -> bool {
        if self.asleep == 0 || self.waking == Waking::UnderWay {
            return false;
        }
        let wake = match self.assembler.due(now) {
            Due::Now => true,
            Due::At(at) => self.alarm.is_none_or(|alarm| at < alarm),
            Due::Never => false,
        };
        if wake {
            self.waking = Waking::UnderWay;
        }
        wake
    }

    fn is_drained(&self) -> bool {
        self.stage == Stage::Closed && self.held == 0 && self.assembler.queued() == 0
    }
}

impl<I: Item, O: Send + 'static> Claims for Shared<I, O> {
    fn expire(&self, now: Instant) {
        let lapsed = self.state.lock().assembler.expire(now);
        self.lapse(lapsed);
    }

    fn wake(&self) {
        self.due.notify_one();
    }

    fn forget(&self, id: Id) {
        let forgotten = self.state.lock().assembler.forget(id);
        if forgotten.is_some() {
            self.give_up(id);
            self.observer.cancelled();
            self.tell_if_drained();
        }
    }

    fn late(&self, error: &SubmitError) {
        self.observer.expired(error);
    }
}

/// An item that was queued.
struct Admitted {
    claim: Claim,
    /// How many are queued now.
    queued: usize,
    call: Call,
}

impl<I: Item, O: Send + 'static> Shared<I, O> {
    /// The queue's part of a submission, and the items that were found to be over on the way.
    fn admit(
        &self,
        item: Queued<I, O>,
        terms: Terms,
    ) -> (Result<Admitted, SubmitError>, Vec<Lapsed<Queued<I, O>>>) {
        let mut state = self.state.lock();
        let now = clock::now();
        let admitted = state.assembler.admit(item, terms, now);
        let lapsed = state.assembler.expire(now);
        let admitted = admitted.map(|id| state.admitted(id, now, terms.deadline));
        drop(state);
        // A refused item is dropped here, not under the lock.
        (admitted.map_err(|refused| refused.error), lapsed)
    }

    /// Answers items whose time is over.
    pub(crate) fn lapse(&self, lapsed: Vec<Lapsed<Queued<I, O>>>) {
        if lapsed.is_empty() {
            return;
        }
        for Lapsed { member, cause } in lapsed {
            self.observer.expired(&cause);
            self.give_up(member.id);
            // Its caller may be gone; then nobody is left to tell.
            let _ = member.item.reply.send(Err(cause));
        }
        self.tell_if_drained();
    }

    /// Answers the items of seats, in the policy's order.
    pub(crate) fn answer(&self, answers: impl Iterator<Item = (Seat<O>, Result<O, SubmitError>)>) {
        let Some(sequence) = &self.sequence else {
            for (seat, answer) in answers {
                send((seat.reply, answer));
            }
            return;
        };
        let mut sequence = sequence.lock();
        for (seat, answer) in answers {
            let released = sequence.fill(seat.id.place(), (seat.reply, answer));
            released.into_iter().for_each(send);
        }
    }

    fn give_up(&self, id: Id) {
        if let Some(sequence) = &self.sequence {
            let mut sequence = sequence.lock();
            sequence.give_up(id.place()).into_iter().for_each(send);
        }
    }

    /// Hands a batch out; what stays behind is another puller's.
    pub(crate) fn leave(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<I, O>>,
        batch: Batch<Queued<I, O>>,
        now: Instant,
    ) -> Work<I, O> {
        state.held += batch.members.len();
        let queued = state.assembler.queued();
        let wake = state.wants_waking(now);
        drop(state);
        if wake {
            self.due.notify_one();
        }
        let first = batch.members.iter().map(|member| member.arrived).min();
        self.observer.formed(&Formed {
            weight: batch.weight,
            items: batch.members.len(),
            oldest_wait: now.saturating_duration_since(first.unwrap_or(now)),
            queued,
        });
        Work::new(Arc::clone(self), batch)
    }

    fn close(&self) {
        let mut state = self.state.lock();
        state.stage = Stage::Closed;
        state.assembler.drain();
        self.due.notify_all();
        self.abandon_if_alone(state);
    }

    /// Answers what is queued when no one will come for it.
    pub(crate) fn abandon_if_alone(&self, mut state: MutexGuard<'_, State<I, O>>) {
        let alone = state.stage == Stage::Closed && state.pullers == 0;
        let abandoned = if alone {
            state.assembler.abandon()
        } else {
            Vec::new()
        };
        drop(state);
        for member in abandoned {
            self.give_up(member.id);
            send((member.item.reply, Err(SubmitError::Lost)));
        }
        self.tell_if_drained();
    }

    pub(crate) fn tell_if_drained(&self) {
        if self.state.lock().is_drained() {
            self.drained.notify_waiters();
        }
    }
}

fn send<O>((reply, answer): Answer<O>) {
    // A caller that went away meanwhile wants no answer.
    let _ = reply.send(answer);
}

//! State of the queue, shared by callers, tickets and workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{Notify, oneshot};

use crate::ticket::TicketQueue;
use crate::{Assembler, Due, ExpiredItem, Id, Item, Member, Observer, Ordering, Policy, ReorderBuffer, SubmitError};

pub(crate) struct Shared<I: Item, O: Send + 'static> {
    state: Mutex<State<I, O>>,
    /// Signals that a batch is due, or that the queue has closed.
    pub(crate) due: Condvar,
    /// Signals that a batch has ended, to workers that stage items for a busy device.
    pub(crate) ended: Condvar,
    pub(crate) observer: Arc<dyn Observer>,
    /// Holds answers back until earlier ones are sent. Answers are sent under its lock, so that none overtakes another.
    reorder: Option<Mutex<ReorderBuffer<Answer<O>>>>,
    /// True once the queue is closed. It is changed under the state's lock and read without it.
    closed: AtomicBool,
    /// Number of items handed out whose answers have not been sent; raised under the state's lock, lowered without it.
    unanswered: AtomicUsize,
    drained: Notify,
    #[cfg(test)]
    locks: AtomicUsize,
}

pub(crate) struct State<I: Item, O: Send + 'static> {
    pub(crate) assembler: Assembler<Queued<I, O>>,
    /// Number of workers, sleeping or not.
    pub(crate) workers: usize,
    /// Number of workers so far, including those that have ended.
    pub(crate) created: usize,
    /// Number of workers that wait for a batch, including those that were woken and do not run yet.
    pub(crate) sleeping: usize,
    /// Numbers of the sleeping workers whose devices are free for inline runs.
    pub(crate) idle: Vec<usize>,
    /// True if a woken worker has not taken the lock yet; that worker will see everything that was queued since.
    pub(crate) wakeup_pending: bool,
    /// Time at which the sleeping worker with a timeout wakes up.
    pub(crate) wakes_at: Option<Instant>,
}

/// An item and the channel for its answer.
pub(crate) struct Queued<I, O> {
    pub(crate) item: I,
    pub(crate) reply: Reply<O>,
}

pub(crate) type Reply<O> = oneshot::Sender<Result<O, SubmitError>>;

pub(crate) type Answer<O> = (Reply<O>, Result<O, SubmitError>);

impl<I: Item, O: Send + 'static> Item for Queued<I, O> {
    type Group = I::Group;

    fn weight(&self) -> usize {
        self.item.weight()
    }

    fn group(&self) -> I::Group {
        self.item.group()
    }
}

impl<I: Item, O: Send + 'static> State<I, O> {
    /// Returns true if a sleeping worker must be woken for a due batch, and then marks the wake-up as pending.
    pub(crate) fn needs_wakeup(&mut self, now: Instant) -> bool {
        if self.sleeping == 0 || self.wakeup_pending {
            return false;
        }
        let wake = match self.assembler.due(now) {
            Due::Now => true,
            Due::At(at) => self.wakes_at.is_none_or(|wakes_at| at < wakes_at),
            Due::Never => false,
        };
        self.wakeup_pending = wake;
        wake
    }
}

impl<I: Item, O: Send + 'static> Shared<I, O> {
    pub(crate) fn new(policy: Policy, observer: Arc<dyn Observer>) -> Self {
        let reorder = match policy.ordering {
            Ordering::Completion => None,
            Ordering::Admission => Some(Mutex::default()),
        };
        let state = State {
            assembler: Assembler::new(policy),
            workers: 0,
            created: 0,
            sleeping: 0,
            idle: Vec::new(),
            wakeup_pending: false,
            wakes_at: None,
        };
        Self {
            state: Mutex::new(state),
            due: Condvar::new(),
            ended: Condvar::new(),
            observer,
            reorder,
            closed: AtomicBool::new(false),
            unanswered: AtomicUsize::new(0),
            drained: Notify::new(),
            #[cfg(test)]
            locks: AtomicUsize::new(0),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State<I, O>> {
        #[cfg(test)]
        self.locks.fetch_add(1, SeqCst);
        self.state.lock()
    }

    /// Returns how often the state was locked so far.
    #[cfg(test)]
    pub(crate) fn locks(&self) -> usize {
        self.locks.load(SeqCst)
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// Counts items as handed out. Must be called under the lock.
    pub(crate) fn handed_out(&self, items: usize) {
        self.unanswered.fetch_add(items, SeqCst);
    }

    /// Counts items as answered. Must be called after their answers were sent, because the end of the drain may end the
    /// runtime that the answers need.
    pub(crate) fn answered(&self, items: usize) {
        self.unanswered.fetch_sub(items, SeqCst);
        self.notify_if_drained();
    }

    /// Sends answers in the policy's order.
    pub(crate) fn send(&self, answers: impl Iterator<Item = (Id, Answer<O>)>) {
        let Some(reorder) = &self.reorder else {
            answers.for_each(|(_, answer)| send(answer));
            return;
        };
        let mut reorder = reorder.lock();
        for (id, answer) in answers {
            let released = reorder.fill(id.position(), answer);
            released.into_iter().for_each(send);
        }
    }

    /// Sends the errors of expired items.
    pub(crate) fn send_expired(&self, expired: Vec<ExpiredItem<Queued<I, O>>>) {
        if expired.is_empty() {
            return;
        }
        for ExpiredItem { member, cause } in expired {
            self.observer.expired(&cause);
            self.skip(member.id);
            send((member.item.reply, Err(cause)));
        }
        self.notify_if_drained();
    }

    /// Removes an item from the order of answers, because it is answered out of turn, and sends the answers that it
    /// held back.
    fn skip(&self, id: Id) {
        if let Some(reorder) = &self.reorder {
            let mut reorder = reorder.lock();
            reorder.skip(id.position()).into_iter().for_each(send);
        }
    }

    /// Lets queued and future items run without delay.
    pub(crate) fn flush(&self) {
        self.lock().assembler.flush();
        self.due.notify_all();
    }

    pub(crate) fn close(&self) {
        let mut state = self.lock();
        self.closed.store(true, SeqCst);
        state.assembler.drain();
        self.due.notify_all();
        self.fail_unserved(state);
    }

    /// Answers the queued items if the queue is closed and has no worker left.
    pub(crate) fn fail_unserved(&self, mut state: MutexGuard<'_, State<I, O>>) {
        let unserved = if self.is_closed() && state.workers == 0 { state.assembler.take_all() } else { Vec::new() };
        drop(state);
        self.fail(unserved, &SubmitError::Lost);
    }

    /// Refuses the queued items, but still admits new ones.
    pub(crate) fn refuse_queued(&self) {
        let queued = self.lock().assembler.take_all();
        self.fail(queued, &SubmitError::Draining);
    }

    fn fail(&self, members: Vec<Member<Queued<I, O>>>, error: &SubmitError) {
        for member in members {
            self.skip(member.id);
            send((member.item.reply, Err(error.clone())));
        }
        self.notify_if_drained();
    }

    /// Waits until the queue is closed and all admitted items have been answered.
    pub(crate) async fn drained(&self) {
        loop {
            let notified = self.drained.notified();
            if self.is_drained() {
                return;
            }
            notified.await;
        }
    }

    /// Wakes the callers of `drained` if the queue is drained. Takes the lock only once the queue is closed, because an
    /// open queue is never drained.
    fn notify_if_drained(&self) {
        if self.is_closed() && self.is_drained() {
            self.drained.notify_waiters();
        }
    }

    fn is_drained(&self) -> bool {
        // All three are read under one lock, because an item may be queued and the queue closed between them.
        let state = self.lock();
        self.is_closed() && state.assembler.queued() == 0 && self.unanswered.load(SeqCst) == 0
    }
}

impl<I: Item, O: Send + 'static> TicketQueue for Shared<I, O> {
    fn expire(&self, now: Instant) {
        let expired = self.lock().assembler.expire(now);
        self.send_expired(expired);
    }

    fn wake(&self) {
        self.due.notify_one();
    }

    fn cancel(&self, id: Id) {
        let cancelled = self.lock().assembler.cancel(id);
        if cancelled.is_some() {
            self.skip(id);
            self.observer.cancelled();
            self.notify_if_drained();
        }
    }

    fn late(&self, error: &SubmitError) {
        self.observer.expired(error);
    }
}

fn send<O>((reply, answer): Answer<O>) {
    // A caller that has gone does not need the answer.
    let _ = reply.send(answer);
}

//! The future of an answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};

use crate::{Id, SubmitError, clock};

/// The future of an item's answer. It ends when its item's time is over, whether or not a device is free.
/// Dropping it takes the item out of the queue; the answer of one that a device has already is lost.
///
/// Polling one whose item has a timeout or deadline needs a tokio runtime with its timer.
#[must_use = "dropping a ticket cancels its item"]
pub struct Ticket<O> {
    queue: Arc<dyn TicketQueue>,
    answer: oneshot::Receiver<Result<O, SubmitError>>,
    admission: Admission,
    /// Made on the first poll that has to wait for it: most items have no timeout.
    timer: Option<Pin<Box<Sleep>>>,
    answered: bool,
}

/// The ticket's view of its queue, without the type of the items.
pub(crate) trait TicketQueue: Send + Sync {
    /// Answers every item whose time is over.
    fn expire(&self, now: Instant);
    /// Wakes an idle worker.
    fn wake(&self);
    /// Takes an item out whose caller went away.
    fn cancel(&self, id: Id);
    /// Counts an item that was too late on its device.
    fn late(&self, error: &SubmitError);
}

/// A ticket's item in the queue.
pub(crate) struct Admission {
    pub(crate) id: Id,
    pub(crate) submitted: Instant,
    /// Time of the next check whether it has expired.
    pub(crate) expires_at: Option<Instant>,
    pub(crate) deadline: Option<Instant>,
    /// An idle worker is still to be woken for it: by the first poll, or the drop.
    pub(crate) wakes_worker: bool,
}

impl<O> Ticket<O> {
    pub(crate) fn new(
        queue: Arc<dyn TicketQueue>,
        answer: oneshot::Receiver<Result<O, SubmitError>>,
        admission: Admission,
    ) -> Self {
        Self { queue, answer, admission, timer: None, answered: false }
    }

    /// Whether polling it will wake an idle worker. A caller with more to submit at the same moment does
    /// that first, so that one batch takes it all.
    #[must_use]
    pub fn wakes_worker(&self) -> bool {
        self.admission.wakes_worker
    }

    /// Leaves the waking to an inline run, which takes the batch.
    pub(crate) fn cancel_wakeup(&mut self) {
        self.admission.wakes_worker = false;
    }

    fn wake(&mut self) {
        if std::mem::take(&mut self.admission.wakes_worker) {
            self.queue.wake();
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<O, SubmitError>> {
        let polled = Pin::new(&mut self.answer).poll(cx);
        polled.map(|answer| answer.unwrap_or(Err(SubmitError::Lost)))
    }

    /// Ready when the next time limit is over; never where there is none.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(end) = self.admission.expires_at else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end.into())));
        timer.as_mut().poll(cx)
    }

    /// Expires what is over, its item perhaps among it. An item on a device has no timeout any more, but
    /// still its deadline.
    fn expire(&mut self) -> Option<SubmitError> {
        let now = clock::now();
        self.queue.expire(now);
        self.timer = None;
        self.admission.expires_at = self.admission.deadline.filter(|deadline| *deadline > now);
        let waited = now.saturating_duration_since(self.admission.submitted);
        let over = self.admission.deadline.is_some_and(|deadline| deadline <= now);
        over.then_some(SubmitError::DeadlineExceeded { waited })
    }

    fn resolve(&mut self, answer: Result<O, SubmitError>) -> Poll<Result<O, SubmitError>> {
        self.answered = true;
        Poll::Ready(answer)
    }
}

impl<O> Future for Ticket<O> {
    type Output = Result<O, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.wake();
        let mut over = None;
        loop {
            if let Poll::Ready(answer) = self.poll_answer(cx) {
                return self.resolve(answer);
            }
            if let Some(error) = over {
                self.queue.late(&error);
                return self.resolve(Err(error));
            }
            ready!(self.poll_timer(cx));
            over = self.expire();
        }
    }
}

impl<O> Drop for Ticket<O> {
    fn drop(&mut self) {
        self.wake();
        if !self.answered {
            self.queue.cancel(self.admission.id);
        }
    }
}

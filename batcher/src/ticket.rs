//! The future of an answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};

use crate::{Id, SubmitError, clock};

/// The future of an item's answer. It ends when the item expires, whether or not a device is free. Dropping the ticket
/// removes the item from the queue; if a device already has the item, its answer is discarded.
///
/// Polling the ticket of an item with a timeout or deadline needs a tokio runtime with its timer.
#[must_use = "dropping a ticket cancels its item"]
pub struct Ticket<O> {
    queue: Arc<dyn TicketQueue>,
    answer: oneshot::Receiver<Result<O, SubmitError>>,
    admission: Admission,
    /// Timer for the expiry, created by the first poll that needs it, because most items have no timeout.
    timer: Option<Pin<Box<Sleep>>>,
    answered: bool,
}

/// Interface of the queue for tickets, independent of the type of the items.
pub(crate) trait TicketQueue: Send + Sync {
    /// Answers every expired item.
    fn expire(&self, now: Instant);
    /// Wakes an idle worker.
    fn wake(&self);
    /// Removes an item whose caller has gone.
    fn cancel(&self, id: Id);
    /// Counts an item whose deadline passed on its device.
    fn late(&self, error: &SubmitError);
}

/// Facts about a ticket's item in the queue.
pub(crate) struct Admission {
    pub(crate) id: Id,
    pub(crate) submitted: Instant,
    /// Time of the next check for expiry.
    pub(crate) expires_at: Option<Instant>,
    pub(crate) deadline: Option<Instant>,
    /// True if an idle worker must still be woken for the item: by the first poll, or by the drop.
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

    /// Returns true if polling the ticket will wake an idle worker. A caller with more items to submit now should
    /// submit them first, so that one batch takes them all.
    #[must_use]
    pub fn wakes_worker(&self) -> bool {
        self.admission.wakes_worker
    }

    /// Leaves the batch to an inline run, so that no worker is woken for it.
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

    /// Returns ready when the next time limit has passed; never if there is none.
    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(end) = self.admission.expires_at else {
            return Poll::Pending;
        };
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end.into())));
        timer.as_mut().poll(cx)
    }

    /// Expires all items whose time limit has passed, which may include this one. An item on a device no longer has a
    /// timeout, but still has its deadline.
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

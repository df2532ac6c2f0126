//! A caller's claim to an answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::sync::oneshot;
use tokio::time::{Sleep, sleep_until};

use crate::{Id, SubmitError, clock};

/// The future of an answer. It ends when its item's time is over, whether or not a device is free.
/// Dropping it takes the item out of the queue; one that a device has already is answered in vain.
///
/// Polling one whose item has a timeout or deadline needs a tokio runtime with its timer.
#[must_use = "dropping a ticket cancels its item"]
pub struct Ticket<O> {
    claims: Arc<dyn Claims>,
    answer: oneshot::Receiver<Result<O, SubmitError>>,
    claim: Claim,
    /// Made on the first poll that has to wait for it: most items have no timeout.
    timer: Option<Pin<Box<Sleep>>>,
    fate: Fate,
    call: Call,
}

/// Whether a sleeping device is still to be woken for a ticket's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// The first poll does it, or the drop.
    Due,
    /// Done, or nobody sleeps.
    Settled,
}

/// What a ticket asks of its queue, which knows its items' type.
pub(crate) trait Claims: Send + Sync {
    /// Answers every item whose time is over.
    fn expire(&self, now: Instant);
    /// Wakes a device that sleeps.
    fn wake(&self);
    /// Takes an item out whose caller went away.
    fn forget(&self, id: Id);
    /// Counts an item that was too late on its device.
    fn late(&self, error: &SubmitError);
}

/// What a ticket stands for.
pub(crate) struct Claim {
    pub(crate) id: Id,
    pub(crate) submitted: Instant,
    /// When to look whether its time is over.
    pub(crate) end: Option<Instant>,
    pub(crate) deadline: Option<Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Settled,
}

impl<O> Ticket<O> {
    pub(crate) fn new(
        claims: Arc<dyn Claims>,
        answer: oneshot::Receiver<Result<O, SubmitError>>,
        claim: Claim,
        call: Call,
    ) -> Self {
        Self {
            call,
            claims,
            answer,
            claim,
            timer: None,
            fate: Fate::Open,
        }
    }

    /// Whether polling it will wake a sleeping device. Who has more to submit at the same moment does
    /// that first, so that one batch takes it all.
    #[must_use]
    pub fn will_wake(&self) -> bool {
        self.call == Call::Due
    }

    /// Someone else sees to what is due.
    pub(crate) fn relieve(&mut self) {
        self.call = Call::Settled;
    }

    fn wake(&mut self) {
        if std::mem::replace(&mut self.call, Call::Settled) == Call::Due {
            self.claims.wake();
        }
    }

    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<Result<O, SubmitError>> {
        let polled = Pin::new(&mut self.answer).poll(cx);
        polled.map(|answer| answer.unwrap_or(Err(SubmitError::Lost)))
    }

    /// Ready when the next time limit is over; never where there is none.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(end) = self.claim.end else {
            return Poll::Pending;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(end.into())));
        timer.as_mut().poll(cx)
    }

    /// Expires what is due, its item perhaps among it. If that is on a device its timeout has nothing
    /// to say any more, but its deadline has.
    fn overtime(&mut self) -> Option<SubmitError> {
        let now = clock::now();
        self.claims.expire(now);
        self.timer = None;
        self.claim.end = self.claim.deadline.filter(|deadline| *deadline > now);
        let waited = now.saturating_duration_since(self.claim.submitted);
        let over = self.claim.deadline.is_some_and(|deadline| deadline <= now);
        over.then_some(SubmitError::DeadlineExceeded { waited })
    }

    fn settle(&mut self, answer: Result<O, SubmitError>) -> Poll<Result<O, SubmitError>> {
        self.fate = Fate::Settled;
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
                return self.settle(answer);
            }
            if let Some(error) = over {
                self.claims.late(&error);
                return self.settle(Err(error));
            }
            ready!(self.poll_end(cx));
            over = self.overtime();
        }
    }
}

impl<O> Drop for Ticket<O> {
    fn drop(&mut self) {
        self.wake();
        match self.fate {
            Fate::Open => self.claims.forget(self.claim.id),
            Fate::Settled => {}
        }
    }
}

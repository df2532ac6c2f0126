//! The state of a revision queue under its lock, and the messages to queued requests.

use std::sync::Arc;
use std::time::Instant;

use smallvec::SmallVec;
use tokio::sync::oneshot;
use weir_cluster::{Activity, Failure, Outlook};

use super::admission_request::{AdmissionRound, QueueWait};
use super::cause;
use super::credit::Credit;
use super::given_up::{AnswerTime, GivenUp};
use super::shares::Charge;
use super::verdict::Verdict;
use super::wake_ups::WokenBy;
use super::{RevisionQueue, Scale};
use crate::queue::dispatcher::{Dequeued, DequeuedList, Dispatcher, Granted};
use crate::upstream::{Channel, Upstream};

/// State of a revision queue, under its lock.
pub(super) struct QueueState {
    pub(super) dispatcher: Dispatcher<Arc<Upstream>, WaiterHandle>,
    pub(super) activity: Activity,
    pub(super) in_flight: u32,
    /// Mean time of the answers, which are neither errors nor streams that have rested.
    pub(super) answer_time: AnswerTime,
    pub(super) given_up: GivenUp,
    pub(super) scale: Scale,
    pub(super) failure: Option<Failure>,
    pub(super) outlook: Outlook,
    /// Last unexpected exit of a replica's program.
    pub(super) last_exit: Option<Failure>,
    /// The last reported activity; `None` after a change.
    pub(super) reported: Option<Arc<Activity>>,
    /// True while a task waits to readmit ejected replicas or to enlarge limits.
    pub(super) has_retry_timer: bool,
    /// The client whose request woke the revision, until it has a replica; `None` if clients are not limited.
    pub(super) woken: Option<WokenBy>,
}

/// Handle by which the queue notifies a waiting request.
pub(super) struct WaiterHandle {
    pub(super) notify: oneshot::Sender<Wakeup>,
    pub(super) wait: QueueWait,
}

/// Message that ends the wait of a queued request.
pub(super) enum Wakeup {
    Granted(Credit),
    HandOver,
    NotOwner,
    /// The queue is full, and the client has more than its share of it.
    Displaced,
}

pub(super) type Wakeups = SmallVec<[(oneshot::Sender<Wakeup>, Wakeup); 1]>;

impl QueueState {
    pub(super) fn count(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Succeeded => self.activity.succeeded += 1,
            Verdict::Failed => self.activity.failed += 1,
            Verdict::Refused => self.activity.refused += 1,
            Verdict::Uncounted | Verdict::Open => {}
        }
    }

    /// Returns the next time at which queued requests may be dispatched without any other event before.
    pub(super) fn next_dispatch(&self, now: Instant) -> Option<Instant> {
        let (readmission, growth) = (self.dispatcher.next_readmission(now), self.dispatcher.next_growth());
        readmission.into_iter().chain(growth).chain(self.dispatcher.next_review(now)).min()
    }

    /// Returns true if the revision has no route and no replica that takes requests, so that queued requests will never
    /// be dispatched.
    pub(super) fn is_over(&self) -> bool {
        self.scale == Scale::Gone && !self.dispatcher.is_open()
    }

    /// Returns true if no replica takes requests and none will until the cause of the failed starts is fixed. Requests
    /// then fail at once with that cause, because they would fail with it after their wait.
    pub(super) fn cannot_start(&self) -> bool {
        self.outlook == Outlook::Fails && !self.dispatcher.is_open()
    }

    /// Returns the last failure as a clause for the end of a sentence; empty if a replica takes requests.
    pub(super) fn failure_clause(&self) -> String {
        match &self.failure {
            Some(failure) if !self.dispatcher.is_open() => format!("; {}", self.cause(failure)),
            Some(_) | None => String::new(),
        }
    }

    /// Returns the reason that no replica takes requests, as a clause: the last failure, or that replicas are starting.
    pub(super) fn why_closed(&self) -> String {
        match &self.failure {
            Some(failure) => self.cause(failure),
            None => "its replicas are still starting".to_owned(),
        }
    }

    /// Describes a failure to a client, together with the last exit of a replica's program.
    fn cause(&self, failure: &Failure) -> String {
        cause::describe(failure, self.last_exit.as_ref())
    }

    /// Returns the platform's message about the last failure; `None` if a replica takes requests.
    pub(super) fn failure_message(&self) -> Option<String> {
        let failure = self.failure.as_ref().filter(|_| !self.dispatcher.is_open());
        failure.map(|failure| failure.sentence(self.last_exit.as_ref()))
    }

    pub(super) fn count_arrival(&mut self, is_new: bool) {
        self.activity.arrivals += u64::from(is_new);
        self.reported = None;
    }

    /// Counts a request that is queued while the revision is at zero. Returns true if it is the only queued request and
    /// no replica takes requests, so that it has to wake the revision. Desired replicas are ignored: the gateway does
    /// not know them if something else scales the Deployment.
    pub(super) fn must_wake(&mut self, is_new: bool) -> bool {
        if self.scale == Scale::Zero {
            self.activity.woken += u64::from(is_new);
        }
        self.dispatcher.queued().requests == 1 && !self.dispatcher.is_open()
    }

    /// Returns true if the next request would wake the revision, and no earlier request has done so.
    pub(super) fn needs_wake_up(&self, at: Instant) -> bool {
        let is_woken = self.woken.is_some_and(|woken| woken.counts(at));
        self.scale == Scale::Zero && !is_woken && self.dispatcher.serving() == Some(0)
    }

    pub(super) fn credit(
        &mut self,
        queue: &Arc<RevisionQueue>,
        granted: Granted<Arc<Upstream>>,
        wait: QueueWait,
        at: Instant,
    ) -> Credit {
        self.in_flight += 1;
        self.reported = None;
        let queued = at.saturating_duration_since(wait.since);
        if wait.round == AdmissionRound::First {
            self.activity.queue_delay.record(queued);
        }
        let client = granted.charge.map(Charge::client);
        let channel = client.map_or(Channel::Common, |client| self.given_up.channel(client, at));
        Credit::new(queue, granted, wait, at, channel)
    }

    pub(super) fn wakeups(
        &mut self,
        queue: &Arc<RevisionQueue>,
        dequeued: DequeuedList<Arc<Upstream>, WaiterHandle>,
        at: Instant,
    ) -> Wakeups {
        self.reported = None;
        let wakeup = |dequeued: Dequeued<Arc<Upstream>, WaiterHandle>| match dequeued {
            Dequeued::Granted(waiter, granted) => {
                let credit = self.credit(queue, granted, waiter.wait, at);
                Some((waiter.notify, Wakeup::Granted(credit)))
            }
            Dequeued::HandOver(waiter) => Some((waiter.notify, Wakeup::HandOver)),
            Dequeued::NotOwner(waiter) => Some((waiter.notify, Wakeup::NotOwner)),
            Dequeued::Displaced(waiter) => Some((waiter.notify, Wakeup::Displaced)),
            // Dropping the channel ends the wait of the request's task, which reports the deadline.
            Dequeued::Expired(_) => None,
        };
        dequeued.into_iter().filter_map(wakeup).collect()
    }
}

/// Sends wake-ups to queued requests. Call this without the lock: if a request has stopped waiting, its credit is given
/// back here, which takes the lock.
pub(super) fn notify(wakeups: Wakeups) {
    for (waiter, wakeup) in wakeups {
        drop(waiter.send(wakeup));
    }
}

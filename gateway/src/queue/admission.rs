//! The way of a request into the queue, and its wait for a credit.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::RevisionQueue;
use super::admission_request::{AdmissionRequest, Arrival};
use super::credit::Credit;
use super::dispatcher::{Admission, Task};
use super::queue_state::{QueueState, WaiterHandle, Wakeup, notify};
use super::refusal::over_share;
use super::shares::ClientShare;
use super::waiter::Waiter;
use crate::clock::now;
use crate::error::{ClientLimit, GatewayError};

/// Destination of an admitted request.
pub(crate) enum Admitted {
    /// A replica, with this credit for it.
    Replica(Credit),
    /// The gateway that owns the queue.
    OtherGateway,
}

/// Longest wait of a request without a deadline: no client waits for hours.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

enum Entered {
    Admitted(Admitted),
    Queued(u64, oneshot::Receiver<Wakeup>),
}

/// Shortest time between two checks for a replica if the service's activation timeout is zero. A probe takes longer
/// than this.
const MIN_ACTIVATION: Duration = Duration::from_millis(100);

impl RevisionQueue {
    /// Queues a request until a credit of a replica is granted.
    ///
    /// # Errors
    /// Fails if the queue is full, the deadline passes, or no replica is ready in time.
    pub(crate) async fn admit(self: &Arc<Self>, request: AdmissionRequest) -> Result<Admitted, GatewayError> {
        match self.enter(&request)? {
            Entered::Admitted(admitted) => Ok(admitted),
            // Boxed, so that the future of a request that does not have to wait stays small.
            Entered::Queued(sequence, wakeup) => Box::pin(self.wait(request, sequence, wakeup)).await,
        }
    }

    async fn wait(
        self: &Arc<Self>,
        request: AdmissionRequest,
        sequence: u64,
        wakeup: oneshot::Receiver<Wakeup>,
    ) -> Result<Admitted, GatewayError> {
        let mut waiter = Waiter::new(self, sequence, wakeup);
        let last = request.deadline.unwrap_or(request.queued_since + LONGEST_WAIT);
        // The activation timeout starts now: a retried request may have been queued long ago.
        let mut check = now() + request.activation;
        loop {
            let wait = tokio::time::timeout_at(last.min(check).into(), waiter.wakeup());
            match wait.await {
                Ok(Some(Wakeup::Granted(credit))) => return Ok(Admitted::Replica(credit)),
                Ok(Some(Wakeup::HandOver)) => return Ok(Admitted::OtherGateway),
                Ok(Some(Wakeup::NotOwner)) => return Err(self.not_owner()),
                Ok(Some(Wakeup::Displaced)) => return Err(self.displaced(&request)),
                Ok(None) => return Err(self.turned_away(&request, sequence)),
                Err(_) if now() >= last => return Err(self.late(&request, sequence)),
                Err(_) => self.check_replicas(&request)?,
            }
            check += request.activation.max(MIN_ACTIVATION);
        }
    }

    fn enter(self: &Arc<Self>, request: &AdmissionRequest) -> Result<Entered, GatewayError> {
        let at = now();
        if request.task == Task::GenerateText && !self.generates_text.load(Ordering::Relaxed) {
            self.generates_text.store(true, Ordering::Relaxed);
        }
        let mut wakeup = None;
        let mut state = self.state.lock();
        if state.is_over() {
            return Err(GatewayError::Gone(self.name.to_string()));
        }
        if state.cannot_start() {
            state.count_arrival(request.sequence.is_none() && request.arrival == Arrival::New);
            return Err(self.not_ready(&state, request));
        }
        if request.sequence.is_none() {
            self.begin_wake_up(&mut state, request.limited, at)?;
        }
        let entered = state.dispatcher.enter(request.dispatch(), at, || {
            let (notify, wakeup_receiver) = oneshot::channel();
            wakeup = Some(wakeup_receiver);
            let wait = request.wait();
            WaiterHandle { notify, wait }
        });
        let is_new = request.sequence.is_none();
        let arrives = is_new && request.arrival == Arrival::New;
        match (entered, wakeup) {
            (Admission::Granted(granted), _) => {
                state.count_arrival(arrives);
                let credit = state.credit(self, granted, request.wait(), at);
                Ok(Entered::Admitted(Admitted::Replica(credit)))
            }
            (Admission::Queued(sequence), Some(wakeup)) => {
                state.count_arrival(arrives);
                if state.must_wake(is_new) {
                    self.wakes.report();
                }
                self.keep_timer(&mut state, at);
                let displaced = state.dispatcher.displaced();
                let wakeups = state.wakeups(self, displaced, at);
                drop(state);
                notify(wakeups);
                Ok(Entered::Queued(sequence, wakeup))
            }
            (Admission::HandOver, _) => Ok(Entered::Admitted(Admitted::OtherGateway)),
            (Admission::Full(limit), _) => {
                state.count_arrival(arrives);
                state.activity.refused += u64::from(arrives);
                Err(self.full(&state, limit))
            }
            (Admission::OverShare(_), _) => {
                state.count_arrival(arrives);
                state.activity.refused += u64::from(arrives);
                Err(over_share())
            }
            (Admission::NotOwner | Admission::Queued(_), _) => Err(self.not_owner()),
        }
    }

    /// Counts a wake-up for this client if its request would wake the revision. This has to come before the request
    /// itself is counted, because the autoscaler starts a replica for a counted request.
    ///
    /// # Errors
    /// [`GatewayError::OverLimit`] if too many revisions wait because of the client.
    pub(crate) fn may_wake(&self, limited: Option<ClientShare>) -> Result<(), GatewayError> {
        self.begin_wake_up(&mut self.state.lock(), limited, now())
    }

    fn begin_wake_up(
        &self,
        state: &mut QueueState,
        limited: Option<ClientShare>,
        at: Instant,
    ) -> Result<(), GatewayError> {
        let Some(share) = limited.filter(|_| state.needs_wake_up(at)) else {
            return Ok(());
        };
        state.woken = self.wakes.begin(share, &self.name, at);
        let over = || GatewayError::OverLimit { limit: ClientLimit::WakeUps, after: Duration::from_secs(1) };
        state.woken.map(|_| ()).ok_or_else(over)
    }

    fn check_replicas(&self, request: &AdmissionRequest) -> Result<(), GatewayError> {
        let state = self.state.lock();
        if state.dispatcher.is_open() {
            return Ok(());
        }
        Err(self.not_ready(&state, request))
    }

    pub(super) fn leave(&self, sequence: u64) {
        let mut state = self.state.lock();
        state.dispatcher.leave(sequence, now());
        state.reported = None;
    }
}

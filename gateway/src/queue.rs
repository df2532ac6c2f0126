//! One revision's desk in service: requests wait here in their own tasks, and credits are given back
//! whatever becomes of those that hold them.

pub(crate) mod concurrency;
mod credit;
pub(crate) mod dispatcher;
pub(crate) mod partition;
mod queue_state;
mod waiter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use weir_cluster::{Activity, Failure, RevisionName};

use crate::batching::Batcher;
use crate::clock::now;
use crate::error::GatewayError;
use crate::queue::dispatcher::{
    Admission, DispatchRequest, Dispatcher, EndpointSpec, Origin, QueueLimit,
};
use crate::queue::partition::GatewaySet;
use crate::upstream::Upstream;
pub(crate) use credit::{Credit, Verdict};
use queue_state::{QueueState, RetryTimer, WaiterHandle, Wakeup, notify};
use waiter::Waiter;

/// A revision that this gateway routes to.
pub(crate) struct RevisionQueue {
    pub(crate) name: RevisionName,
    /// The value of the response header.
    pub(crate) header: http::HeaderValue,
    state: Mutex<QueueState>,
    /// Requests that wait for others to share a batch with.
    pub(crate) batcher: Batcher,
    /// Told when a request meets the revision at zero.
    wake: Arc<Notify>,
}

/// Whether a revision sleeps, or is no longer asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// No replica runs or is asked for.
    Zero,
    /// Some do, or will.
    Up,
    /// Nobody routes to it any more. Who has a replica may finish with it.
    Gone,
}

/// What is known of a revision from outside.
pub(crate) struct RevisionState {
    pub(crate) limit: QueueLimit,
    pub(crate) gateways: GatewaySet,
    pub(crate) replicas: Vec<EndpointSpec<Arc<Upstream>>>,
    pub(crate) scale: Scale,
    pub(crate) failure: Option<Failure>,
}

/// Who asks for a credit, and how long that may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionRequest {
    pub(crate) sequence: Option<u64>,
    pub(crate) arrival: Arrival,
    pub(crate) bytes: usize,
    pub(crate) origin: Origin,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    /// The longest wait while there is no replica at all.
    pub(crate) activation: Duration,
}

/// Whether a request was counted when it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Not yet.
    New,
    /// It was, before it joined a batch or left one.
    Counted,
}

/// What became of that.
pub(crate) enum Admitted {
    /// A replica takes it.
    Replica(Credit),
    /// Another gateway, by its index, has the queue.
    OtherGateway(u32),
}

/// Nobody waits longer, whatever the deadlines: clients that wait for hours have long forgotten.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl RevisionQueue {
    pub(crate) fn new(name: RevisionName, limit: QueueLimit, wake: Arc<Notify>) -> Self {
        // A revision's name is a DNS label.
        let header = http::HeaderValue::from_str(name.as_str());
        Self {
            name,
            header: header.unwrap_or(http::HeaderValue::from_static("")),
            state: Mutex::new(QueueState {
                dispatcher: Dispatcher::new(limit),
                activity: Activity::default(),
                in_flight: 0,
                scale: Scale::Up,
                failure: None,
                reported: None,
                retry_timer: RetryTimer::Off,
            }),
            batcher: Batcher::default(),
            wake,
        }
    }

    /// Waits for a credit.
    ///
    /// # Errors
    /// A full queue, a deadline that passes, no replica in time.
    pub(crate) async fn admit(
        self: &Arc<Self>,
        request: AdmissionRequest,
    ) -> Result<Admitted, GatewayError> {
        match self.enter(&request)? {
            Entered::Admitted(admitted) => Ok(admitted),
            // Apart, so that those who need not wait do not carry what waiting needs.
            Entered::Queued(sequence, wakeup) => {
                Box::pin(self.wait(request, sequence, wakeup)).await
            }
        }
    }

    async fn wait(
        self: &Arc<Self>,
        request: AdmissionRequest,
        sequence: u64,
        wakeup: oneshot::Receiver<Wakeup>,
    ) -> Result<Admitted, GatewayError> {
        let mut waiter = Waiter::new(self, sequence, wakeup);
        let last = request.deadline.unwrap_or(request.arrived + LONGEST_WAIT);
        // From now: who comes back from a lost replica may have been here for long.
        let mut check = now() + request.activation;
        loop {
            let wait = tokio::time::timeout_at(last.min(check).into(), waiter.wakeup());
            match wait.await {
                Ok(Some(Wakeup::Granted(credit))) => return Ok(Admitted::Replica(credit)),
                Ok(Some(Wakeup::HandOver(owner))) => return Ok(Admitted::OtherGateway(owner)),
                Ok(Some(Wakeup::NotOwner)) => return Err(self.not_owner()),
                Ok(None) => return Err(self.turned_away(&request, sequence)),
                Err(_) if now() >= last => return Err(self.late(&request, sequence)),
                Err(_) => self.check_replicas(&request)?,
            }
            check += request.activation.max(MIN_ACTIVATION);
        }
    }

    fn enter(self: &Arc<Self>, request: &AdmissionRequest) -> Result<Entered, GatewayError> {
        let at = now();
        let dispatch = DispatchRequest {
            sequence: request.sequence,
            bytes: request.bytes,
            deadline: request.deadline,
            origin: request.origin,
        };
        let mut wakeup = None;
        let mut state = self.state.lock();
        if state.is_over() {
            return Err(GatewayError::Gone(self.name.to_string()));
        }
        let entered = state.dispatcher.enter(dispatch, at, || {
            let (notify, wakeup_receiver) = oneshot::channel();
            wakeup = Some(wakeup_receiver);
            let since = request.arrived;
            WaiterHandle { notify, since }
        });
        let is_new = request.sequence.is_none();
        let arrives = is_new && request.arrival == Arrival::New;
        match (entered, wakeup) {
            (Admission::Granted(granted), _) => {
                state.arrive(arrives);
                let credit = state.credit(self, granted, request.arrived, at);
                Ok(Entered::Admitted(Admitted::Replica(credit)))
            }
            (Admission::Queued(sequence), Some(wakeup)) => {
                state.arrive(arrives);
                if state.wakes(is_new) {
                    self.wake.notify_one();
                }
                Ok(Entered::Queued(sequence, wakeup))
            }
            (Admission::HandOver(owner), _) => Ok(Entered::Admitted(Admitted::OtherGateway(owner))),
            (Admission::Full(limit), _) => {
                state.arrive(arrives);
                state.activity.refused += u64::from(arrives);
                Err(GatewayError::QueueFull {
                    revision: self.name.to_string(),
                    requests: limit.requests,
                    bytes: limit.bytes,
                })
            }
            (Admission::NotOwner | Admission::Queued(_), _) => Err(self.not_owner()),
        }
    }

    /// How much may wait.
    pub(crate) fn limit(&self) -> QueueLimit {
        self.state.lock().dispatcher.limit()
    }

    /// So much may wait from now on.
    pub(crate) fn set_limit(&self, limit: QueueLimit) {
        self.state.lock().dispatcher.set_limit(limit);
    }

    /// Takes what is new about the revision.
    pub(crate) fn update(self: &Arc<Self>, revision_state: RevisionState) {
        let mut state = self.state.lock();
        let RevisionState {
            limit,
            gateways,
            replicas,
            scale,
            failure,
        } = revision_state;
        (state.scale, state.failure) = (scale, failure);
        let at = now();
        let (lost, dequeued) = state.dispatcher.update(limit, gateways, replicas, at);
        if state.is_over() {
            state.dispatcher.dismiss();
        }
        let wakeups = state.wakeups(self, dequeued, at);
        drop(state);
        for upstream in lost {
            upstream.lost.cancel();
        }
        notify(wakeups);
    }

    /// Before this time it may use no credits: other gateways do still.
    pub(crate) fn start(&self, at: Option<Instant>) {
        self.state.lock().dispatcher.start(at);
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        self.state.lock().dispatcher.next_handover()
    }

    /// Takes a replica's word for how much it takes at once.
    pub(crate) fn report_capacity(self: &Arc<Self>, upstream: &Arc<Upstream>, capacity: u32) {
        if !upstream.note_capacity(capacity) {
            return;
        }
        let mut state = self.state.lock();
        let Some(id) = state.dispatcher.id_of(upstream) else {
            return;
        };
        let at = now();
        let dequeued = state.dispatcher.report(id, capacity, at);
        let wakeups = state.wakeups(self, dequeued, at);
        drop(state);
        notify(wakeups);
    }

    /// The replicas that are known, each with its requests in flight and the most it may have.
    pub(crate) fn replicas(&self) -> Vec<(Arc<Upstream>, u32, u32)> {
        let state = self.state.lock();
        let endpoints = state.dispatcher.endpoints();
        endpoints
            .map(|(upstream, in_flight, most)| (Arc::clone(upstream), in_flight, most))
            .collect()
    }

    /// Whether a request would be taken or waited for: some replica takes requests, or none has to.
    pub(crate) fn is_serving(&self) -> bool {
        let state = self.state.lock();
        state.dispatcher.is_open() || (state.scale == Scale::Zero && state.failure.is_none())
    }

    /// Why no replica became ready, if the platform said so.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// All that happened, and what is so now.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        let mut state = self.state.lock();
        let batching = self.batcher.len();
        let queued = state.dispatcher.queued().requests + batching;
        if queued == 0
            && let Some(reported) = &state.reported
        {
            return Arc::clone(reported);
        }
        state.activity.queued = queued as u32;
        state.activity.in_flight = state.in_flight;
        state.activity.credits = state.dispatcher.credits();
        let waited = state
            .dispatcher
            .oldest()
            .map(|oldest| now().saturating_duration_since(oldest.since));
        state.activity.oldest_us = waited.map_or(0, |waited| waited.as_micros() as u64);
        let reported = Arc::new(state.activity.clone());
        // Who gathers comes and goes without a word to us.
        state.reported = (batching == 0).then(|| Arc::clone(&reported));
        reported
    }

    /// Batches under way with which no replica is idle; `None` where another gateway has the queue.
    pub(crate) fn flights(&self) -> Option<usize> {
        // Without a replica the first of a batch is who wakes one.
        self.state
            .lock()
            .dispatcher
            .serving()
            .map(|open| open.max(1))
    }

    /// Counts a request that joins those that gather.
    pub(crate) fn count_arrival(&self) {
        self.state.lock().arrive(true);
    }

    /// Counts one that may not gather, or whose batch was refused.
    pub(crate) fn count_refused(&self) {
        let mut state = self.state.lock();
        state.activity.refused += 1;
        state.reported = None;
    }

    /// Counts the end of one that was in a batch.
    pub(crate) fn count_batch_entry(&self, verdict: Verdict) {
        let mut state = self.state.lock();
        state.count(verdict);
        state.reported = None;
    }

    /// Counts a request that failed without a credit.
    pub(crate) fn count_failed(&self) {
        let mut state = self.state.lock();
        state.activity.failed += 1;
        state.reported = None;
    }

    fn check_replicas(&self, request: &AdmissionRequest) -> Result<(), GatewayError> {
        let state = self.state.lock();
        if state.dispatcher.is_open() {
            return Ok(());
        }
        let because = match &state.failure {
            Some(failure) => format!("{}: {}", failure.reason.label(), failure.message),
            None => "its replicas are still starting".to_owned(),
        };
        Err(GatewayError::NotReady {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(request.arrived),
            because,
        })
    }

    /// Why the desk let go of one who waited: its deadline has passed, or nobody will ever be served here.
    fn turned_away(&self, request: &AdmissionRequest, sequence: u64) -> GatewayError {
        let is_over = self.state.lock().is_over();
        match is_over {
            true => GatewayError::Gone(self.name.to_string()),
            false => self.late(request, sequence),
        }
    }

    fn late(&self, request: &AdmissionRequest, sequence: u64) -> GatewayError {
        GatewayError::LateInQueue {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(request.arrived),
            ahead: self.state.lock().dispatcher.ahead(sequence),
        }
    }

    fn not_owner(&self) -> GatewayError {
        GatewayError::NotOwner(self.name.to_string())
    }

    fn leave(&self, sequence: u64) {
        let mut state = self.state.lock();
        state.dispatcher.leave(sequence);
        state.reported = None;
    }
}

/// A service that sets no time at all to wake up still gets this long: less than a probe takes would
/// only spin.
const MIN_ACTIVATION: Duration = Duration::from_millis(100);

enum Entered {
    Admitted(Admitted),
    Queued(u64, oneshot::Receiver<Wakeup>),
}

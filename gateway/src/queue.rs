//! The queue of one revision. Each request waits in its own task until the dispatcher grants it a credit, which is
//! given back however the request ends.

mod concurrency;
mod credit;
mod dispatcher;
mod failures;
mod first_byte;
mod fixed_hash;
mod partition;
mod queue_limit;
mod queue_state;
pub(crate) mod readiness;
mod release;
mod shares;
mod stream_times;
mod verdict;
mod waiter;
mod wake_ups;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use weir_cluster::{Activity, Failure, Outlook, Replica, ReplicaLoad, ReplicaLoads, RevisionName};
use weir_serve::failure_log::FailureLog;

use crate::clock::now;
use crate::engine_queue::{self, EngineWait, Engines};
use crate::error::{ClientLimit, GatewayError};
use crate::upstream::Upstream;
pub(crate) use credit::Credit;
use dispatcher::{Admission, DispatchRequest, Dispatcher};
pub(crate) use dispatcher::{EndpointId, EndpointSpec, EndpointState, HANDOVER, Origin, Task};
use first_byte::FirstByteWait;
pub(crate) use partition::{GatewaySet, Membership};
pub(crate) use queue_limit::QueueLimit;
use queue_state::{QueueState, WaiterHandle, Wakeup, notify};
pub(crate) use shares::{ClientId, ClientShare};
use stream_times::StreamTimes;
pub(crate) use stream_times::{AtomicHistogram, StreamClock};
pub(crate) use verdict::{Outcome, Verdict};
use waiter::Waiter;
pub(crate) use wake_ups::WakeUps;

/// The queue of one revision.
pub(crate) struct RevisionQueue {
    pub(crate) name: RevisionName,
    /// Value of the response header `weir-revision`.
    pub(crate) header: http::HeaderValue,
    state: Mutex<QueueState>,
    /// Requests that wait in the gateway's batch queue, which the dispatcher does not count.
    batching: AtomicUsize,
    /// Set once a request has asked for generated text, so that the replicas may be engines.
    generates_text: AtomicBool,
    engine_wait: Mutex<EngineWait>,
    /// Waits of the revision's streamed responses inside engines that do not say how many requests wait.
    first_bytes: Mutex<FirstByteWait>,
    /// Times of the revision's streamed responses.
    pub(crate) streams: StreamTimes,
    /// Causes of failed requests that were logged, each with its time.
    failures: Mutex<FailureLog>,
    wakes: Arc<WakeUps>,
}

/// Scale of a revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// The revision has no replicas and should have none.
    Zero,
    /// The revision has replicas, or will have some.
    Up,
    /// No route leads to the revision any more. Requests that are at a replica finish.
    Gone,
}

/// Result of checking whether a revision would serve a request.
pub(crate) enum Readiness {
    /// This replica takes requests; other replicas may too.
    Serving(Arc<Upstream>),
    /// The revision has no replica, and the next request starts one.
    AtZero,
    /// The revision cannot serve requests, for this reason.
    Down(String),
}

impl Readiness {
    /// Returns why the revision would not serve a request; `None` if it would.
    pub(crate) fn why_down(self) -> Option<String> {
        match self {
            Self::Serving(_) | Self::AtZero => None,
            Self::Down(because) => Some(because),
        }
    }
}

/// State of a revision as the cluster reports it.
pub(crate) struct RevisionState {
    pub(crate) limit: QueueLimit,
    pub(crate) gateways: GatewaySet,
    pub(crate) replicas: Vec<EndpointSpec<Arc<Upstream>>>,
    pub(crate) scale: Scale,
    pub(crate) failure: Option<Failure>,
    /// Expected future of the replicas: [`Outlook::Fails`] if every replica backs off after at least two failed starts.
    pub(crate) outlook: Outlook,
    /// Last exit of a replica's program.
    pub(crate) last_exit: Option<Failure>,
    /// All replicas of the revision that the platform reports, including those that receive no requests.
    pub(crate) reported: Vec<Replica>,
}

/// Request for a credit, with the time that it may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdmissionRequest {
    pub(crate) sequence: Option<u64>,
    pub(crate) arrival: Arrival,
    pub(crate) bytes: usize,
    pub(crate) origin: Origin,
    pub(crate) task: Task,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    /// Longest wait while no replica takes requests.
    pub(crate) activation: Duration,
    /// The client that is charged for the request.
    pub(crate) share: ClientShare,
    /// The client whose wake-ups are limited; `None` without access control.
    pub(crate) limited: Option<ClientShare>,
}

/// Parts of a request that the revision's statistics already contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// Nothing is counted yet: the request has just arrived.
    New,
    /// The arrival is counted, because the request joined or left a batch.
    Counted,
    /// Arrival and queue time are both recorded, with a batch that the request has since left.
    QueueTimeRecorded,
}

/// Time that a request waits for a credit. The queue time is recorded only for a request's first credit, because the
/// autoscaler takes each recorded time as one more request.
#[derive(Clone, Copy, Debug)]
struct QueueWait {
    since: Instant,
    round: AdmissionRound,
}

/// First or later admission of the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AdmissionRound {
    First,
    Later,
}

impl AdmissionRequest {
    /// Returns the request's wait. The round is `First` until the request has held a credit, which gives it a sequence
    /// number.
    fn wait(&self) -> QueueWait {
        let round = match (self.sequence, self.arrival) {
            (None, Arrival::New | Arrival::Counted) => AdmissionRound::First,
            (None, Arrival::QueueTimeRecorded) | (Some(_), _) => AdmissionRound::Later,
        };
        QueueWait { since: self.arrived, round }
    }

    fn dispatch(&self) -> DispatchRequest {
        let &Self { sequence, bytes, deadline, origin, task, share, .. } = self;
        DispatchRequest { sequence, bytes, deadline, origin, task, share }
    }
}

/// Destination of an admitted request.
pub(crate) enum Admitted {
    /// A replica, with this credit for it.
    Replica(Credit),
    /// The gateway with this index, which owns the queue.
    OtherGateway(u32),
}

/// Longest wait of a request without a deadline: no client waits for hours.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

impl RevisionQueue {
    pub(crate) fn new(name: RevisionName, limit: QueueLimit, wakes: Arc<WakeUps>) -> Self {
        // A revision's name is a DNS label and therefore a valid header value.
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
                outlook: Outlook::Starts,
                last_exit: None,
                reported: None,
                has_retry_timer: false,
                woken: None,
            }),
            batching: AtomicUsize::new(0),
            generates_text: AtomicBool::new(false),
            engine_wait: Mutex::default(),
            first_bytes: Mutex::default(),
            streams: StreamTimes::default(),
            failures: Mutex::default(),
            wakes,
        }
    }

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
        let last = request.deadline.unwrap_or(request.arrived + LONGEST_WAIT);
        // The activation timeout starts now: a retried request may have arrived long ago.
        let mut check = now() + request.activation;
        loop {
            let wait = tokio::time::timeout_at(last.min(check).into(), waiter.wakeup());
            match wait.await {
                Ok(Some(Wakeup::Granted(credit))) => return Ok(Admitted::Replica(credit)),
                Ok(Some(Wakeup::HandOver(owner))) => return Ok(Admitted::OtherGateway(owner)),
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
            (Admission::HandOver(owner), _) => Ok(Entered::Admitted(Admitted::OtherGateway(owner))),
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

    fn full(&self, state: &QueueState, content: QueueLimit) -> GatewayError {
        GatewayError::QueueFull {
            revision: self.name.to_string(),
            requests: content.requests,
            bytes: content.bytes,
            failure: state.failure_clause(),
        }
    }

    /// Counts the wake-up of a revision at zero for this client, before its request is counted in any way, because the
    /// autoscaler starts a replica for each request that arrived.
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

    /// Sets the number of requests that wait for a batch.
    pub(crate) fn set_batching(&self, requests: usize) {
        self.batching.store(requests, Ordering::Relaxed);
    }

    /// Returns the limit of queued requests.
    pub(crate) fn limit(&self) -> QueueLimit {
        self.state.lock().dispatcher.limit()
    }

    /// Replaces the limit of queued requests. Requests that are already queued stay.
    pub(crate) fn set_limit(&self, limit: QueueLimit) {
        self.state.lock().dispatcher.set_limit(limit);
    }

    /// Applies a new state of the revision and dispatches queued requests.
    pub(crate) fn update(self: &Arc<Self>, revision_state: RevisionState) {
        let mut state = self.state.lock();
        let RevisionState { limit, gateways, replicas, scale, failure, outlook, last_exit, reported } = revision_state;
        (state.scale, state.failure, state.outlook, state.last_exit) = (scale, failure, outlook, last_exit);
        let at = now();
        let (lost, dequeued) = state.dispatcher.update(limit, gateways, replicas, at);
        if state.is_over() || state.cannot_start() {
            state.dispatcher.dismiss();
        }
        if state.dispatcher.is_open() || state.is_over() || state.cannot_start() {
            let woken = state.woken.take();
            woken.into_iter().for_each(|woken| self.wakes.end(woken, &self.name));
        }
        let wakeups = state.wakeups(self, dequeued, at);
        for replica in reported.iter().filter(|replica| replica.last_exit.is_some()) {
            let mut all = state.dispatcher.endpoints();
            if let Some((upstream, ..)) = all.find(|(upstream, ..)| upstream.is(replica)) {
                upstream.note_exit(replica);
            }
        }
        drop(state);
        for upstream in lost {
            upstream.leave(&reported);
        }

        notify(wakeups);
    }

    /// Uses no credits before `at`, because other gateways still use them.
    pub(crate) fn start(&self, at: Option<Instant>) {
        self.state.lock().dispatcher.start(at);
    }

    /// Returns the next time at which this gateway gains credits from another gateway; `None` if no hand-over is
    /// pending.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        self.state.lock().dispatcher.next_handover()
    }

    /// Applies the number of concurrent requests that a replica reports.
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

    /// Returns the known replicas, each with its requests in flight and the most that it may have.
    pub(crate) fn replicas(&self) -> Vec<(Arc<Upstream>, u32, u32)> {
        let state = self.state.lock();
        let endpoints = state.dispatcher.endpoints();
        endpoints.map(|(upstream, in_flight, most)| (Arc::clone(upstream), in_flight, most)).collect()
    }

    /// Returns whether the revision would serve a request: a replica takes requests, or the next request starts one.
    pub(crate) fn readiness(&self) -> Readiness {
        let state = self.state.lock();
        match state.dispatcher.open_replica() {
            Some(upstream) => Readiness::Serving(Arc::clone(upstream)),
            None if state.scale == Scale::Zero && state.failure.is_none() => Readiness::AtZero,
            None => Readiness::Down(format!("revision {} has no ready replica; {}", self.name, state.why_closed())),
        }
    }

    /// Returns the platform's reason for having no ready replica.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.state.lock().failure.clone()
    }

    /// Returns the counters since the start and the current gauges.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        let mut state = self.state.lock();
        let batching = self.batching.load(Ordering::Relaxed);
        let queued = state.dispatcher.queued().requests + batching;
        let loads = replica_loads(&state.dispatcher);
        if queued == 0
            && let Some(reported) = &state.reported
            && reported.replica_loads == loads
        {
            return Arc::clone(reported);
        }
        state.activity.replica_loads = loads;
        state.activity.queued = queued as u32;
        state.activity.in_flight = state.in_flight;
        state.activity.credits = state.dispatcher.credits();
        let waited = state.dispatcher.oldest().map(|oldest| now().saturating_duration_since(oldest.wait.since));
        state.activity.oldest_us = waited.map_or(0, |waited| waited.as_micros() as u64);
        let reported = Arc::new(state.activity.clone());
        // Requests in the batch queue come and go without changing this state, so a copy that counts some of them would
        // become stale and is not kept.
        state.reported = (batching == 0).then(|| Arc::clone(&reported));
        reported
    }

    /// Returns the activity for the report of one of these gateways, and begins to read the metrics of engines for the
    /// next one.
    pub(crate) fn reported_activity(&self, gateways: u32) -> Arc<Activity> {
        let activity = self.with_engine_queues(self.activity(), gateways);
        self.first_bytes.lock().counted(&activity, now())
    }

    fn with_engine_queues(&self, activity: Arc<Activity>, gateways: u32) -> Arc<Activity> {
        let engines = if self.generates_text.load(Ordering::Relaxed) { Engines::All } else { Engines::WithMetricsPort };
        // Idle revisions, of which there may be thousands, ask for nothing.
        let replicas = if activity.in_flight > 0 { self.replicas() } else { Vec::new() };
        let waiting = engine_queue::waiting(replicas.iter().map(|(upstream, _, _)| upstream), engines, gateways);
        self.engine_wait.lock().counted(&activity, waiting, now())
    }

    /// Returns the number of batches in flight that keeps all replicas busy; `None` if another gateway owns the queue.
    pub(crate) fn max_batches(&self) -> Option<usize> {
        // Without a replica, one batch is sent to wake the revision.
        self.state.lock().dispatcher.serving().map(|open| open.max(1))
    }

    /// Counts the arrival of a request that joins a batch.
    pub(crate) fn count_arrival(&self) {
        self.state.lock().count_arrival(true);
    }

    /// Counts a request that the batch queue refused, or that was refused with its batch.
    pub(crate) fn count_refused(&self) {
        let mut state = self.state.lock();
        state.activity.refused += 1;
        state.reported = None;
    }

    /// Counts the end of a request that holds no credit of its own: it was in a batch, or failed before it got a
    /// credit.
    pub(crate) fn count(&self, verdict: Verdict) {
        let mut state = self.state.lock();
        state.count(verdict);
        state.reported = None;
    }

    fn check_replicas(&self, request: &AdmissionRequest) -> Result<(), GatewayError> {
        let state = self.state.lock();
        if state.dispatcher.is_open() {
            return Ok(());
        }
        Err(self.not_ready(&state, request))
    }

    fn not_ready(&self, state: &QueueState, request: &AdmissionRequest) -> GatewayError {
        GatewayError::NotReady {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(request.arrived),
            because: state.why_closed(),
        }
    }

    /// Returns the error of a request that left the queue without a credit.
    fn turned_away(&self, request: &AdmissionRequest, sequence: u64) -> GatewayError {
        let state = self.state.lock();
        if state.is_over() {
            return GatewayError::Gone(self.name.to_string());
        }
        if state.cannot_start() {
            return self.not_ready(&state, request);
        }
        drop(state);
        self.late(request, sequence)
    }

    fn late(&self, request: &AdmissionRequest, sequence: u64) -> GatewayError {
        let state = self.state.lock();
        GatewayError::LateInQueue {
            revision: self.name.to_string(),
            waited: now().saturating_duration_since(request.arrived),
            ahead: state.dispatcher.ahead(sequence),
            failure: state.failure_clause(),
        }
    }

    /// Returns the last failure as a clause for the end of an error's sentence; empty if a replica is ready.
    pub(crate) fn failure_clause(&self) -> String {
        self.state.lock().failure_clause()
    }

    /// Counts a request that had to leave the full queue, and returns its error.
    fn displaced(&self, request: &AdmissionRequest) -> GatewayError {
        if request.sequence.is_none() && request.arrival == Arrival::New {
            self.count_refused();
        }
        over_share()
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

/// Returns the error of a client that has its share of a full queue. After a second, the queue has advanced.
fn over_share() -> GatewayError {
    GatewayError::OverLimit { limit: ClientLimit::QueueShare, after: Duration::from_secs(1) }
}

/// Shortest time between two checks for a replica if the service's activation timeout is zero. A probe takes longer
/// than this.
const MIN_ACTIVATION: Duration = Duration::from_millis(100);

/// Returns the load of each replica that has requests.
fn replica_loads(dispatcher: &Dispatcher<Arc<Upstream>, WaiterHandle>) -> ReplicaLoads {
    dispatcher
        .endpoints()
        .map(|(upstream, ..)| (upstream.name.clone(), upstream.load.get()))
        .filter(|(_, load)| *load != ReplicaLoad::default())
        .collect()
}

enum Entered {
    Admitted(Admitted),
    Queued(u64, oneshot::Receiver<Wakeup>),
}

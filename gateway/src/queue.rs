//! The queue of one revision. Each request waits in its own task until the dispatcher grants it a credit, which is
//! given back however the request ends.

mod activity;
mod admission;
mod admission_request;
pub(crate) mod cause;
mod concurrency;
mod credit;
mod dispatcher;
mod failures;
mod first_byte;
mod fixed_hash;
mod given_up;
mod partition;
mod queue_state;
mod refusal;
mod release;
mod reported_waits;
mod shares;
mod stream_times;
#[cfg(test)]
pub(crate) mod testing;
mod verdict;
mod waiter;
mod wake_ups;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Instant;

use parking_lot::Mutex;
use weir_cluster::{Activity, Failure, Outlook, Replica, RevisionName};
use weir_serve::failure_log::FailureLog;

use crate::clock::now;
use crate::engine_queue::{EngineWait, Inside};
use crate::upstream::Upstream;
pub(crate) use admission::Admitted;
pub(crate) use admission_request::{AdmissionRequest, Arrival};
pub(crate) use credit::Credit;
use dispatcher::Dispatcher;
pub(crate) use dispatcher::{EndpointId, EndpointSpec, EndpointState, HANDOVER, Origin, Task};
use first_byte::FirstByteWait;
use given_up::{AnswerTime, GivenUp};
pub(crate) use partition::{GatewaySet, Membership, owner};
use queue_state::{QueueState, notify};
use reported_waits::ReportedWaits;
pub(crate) use shares::ClientShare;
use stream_times::StreamTimes;
pub(crate) use stream_times::{AtomicHistogram, StreamClock};
pub(crate) use verdict::{Outcome, Verdict};
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
    /// Requests that wait inside the replicas according to the latest report.
    inside: Mutex<Inside>,
    /// Waits of the revision's streamed responses inside engines that do not report how many requests wait.
    first_bytes: Mutex<FirstByteWait>,
    /// Waits of all requests as reported.
    waits: Mutex<ReportedWaits>,
    /// Times of the revision's streamed responses.
    pub(crate) streams: StreamTimes,
    /// Causes of failed requests that were logged, each with its time.
    failures: Mutex<FailureLog>,
    wakes: Arc<WakeUps>,
}

/// Limit of a queue, or its current content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueLimit {
    pub(crate) requests: usize,
    /// Bytes of the requests' bodies together.
    pub(crate) bytes: usize,
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
                answer_time: AnswerTime::default(),
                given_up: GivenUp::default(),
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
            inside: Mutex::default(),
            first_bytes: Mutex::default(),
            waits: Mutex::default(),
            streams: StreamTimes::default(),
            failures: Mutex::default(),
            wakes,
        }
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
        self.keep_timer(&mut state, at);
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
        self.keep_timer(&mut state, at);
        drop(state);
        notify(wakeups);
    }

    /// Applies the limit that the gateway that owns the queue has measured at a replica.
    pub(crate) fn learn_limit(&self, limit: u32) {
        self.state.lock().dispatcher.learn(limit);
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

    /// Returns the number of batches in flight that keeps all replicas busy; `None` if another gateway owns the queue.
    pub(crate) fn max_batches(&self) -> Option<usize> {
        // Without a replica, one batch is sent to wake the revision.
        self.state.lock().dispatcher.serving().map(|open| open.max(1))
    }
}

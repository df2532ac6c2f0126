//! Counters and gauges of a revision's requests, from which the autoscaler decides.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_cluster::{Activity, ReplicaLoad, ReplicaLoads, UntrustedReplicas};

use super::RevisionQueue;
use super::dispatcher::Dispatcher;
use super::queue_state::WaiterHandle;
use super::verdict::Verdict;
use crate::clock::now;
use crate::engine_queue::{self, Engines, Inside, with_waiting};
use crate::upstream::Upstream;

impl RevisionQueue {
    /// Sets the number of requests that wait for a batch.
    pub(crate) fn set_batching(&self, requests: usize) {
        self.batching.store(requests, Ordering::Relaxed);
    }

    /// Returns the counters since the start and the current gauges.
    pub(crate) fn activity(&self) -> Arc<Activity> {
        let mut state = self.state.lock();
        let batching = self.batching.load(Ordering::Relaxed);
        let queued = state.dispatcher.queued().requests + batching;
        let (loads, untrusted) = (replica_loads(&state.dispatcher), untrusted(&state.dispatcher, now()));
        if queued == 0
            && let Some(reported) = &state.reported
            && reported.replica_loads == loads
            && reported.untrusted == untrusted
        {
            return Arc::clone(reported);
        }
        state.activity.replica_loads = loads;
        state.activity.untrusted = untrusted;
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

    /// Returns true if a replica has a request.
    pub(crate) fn has_requests_at_replicas(&self) -> bool {
        !self.activity().replica_loads.is_empty()
    }

    /// Returns the activity for this gateway's report, and begins to read the metrics of engines for the next report.
    /// `gateways` is the number of gateways that share the replicas.
    pub(crate) fn reported_activity(&self, gateways: u32) -> Arc<Activity> {
        let activity = self.activity();
        let counted = self.with_engine_queues(&activity, gateways);
        let counted = self.first_bytes.lock().counted(&counted, now());
        let inside = Inside::between(&activity, &counted);
        *self.inside.lock() = inside;
        // If a request at the gateway has waited longer, the wait inside the replicas is unknown.
        let wait = if counted.oldest_us > activity.oldest_us { inside.wait } else { Duration::ZERO };
        self.waits.lock().counted(counted, wait)
    }

    /// Returns the activity for metrics and descriptions. The queues inside engines are those of the latest report.
    pub(crate) fn shown_activity(&self) -> Arc<Activity> {
        let inside = *self.inside.lock();
        with_waiting(&self.activity(), inside.waiting, inside.wait)
    }

    fn with_engine_queues(&self, activity: &Arc<Activity>, gateways: u32) -> Arc<Activity> {
        let engines = if self.generates_text.load(Ordering::Relaxed) { Engines::All } else { Engines::WithMetricsPort };
        // No metrics are read for idle revisions, of which there may be thousands.
        let replicas = if activity.in_flight > 0 { self.replicas() } else { Vec::new() };
        let waiting = engine_queue::waiting(replicas.iter().map(|(upstream, _, _)| upstream), engines, gateways);
        self.engine_wait.lock().counted(activity, waiting, now())
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
}

/// Returns the load of each replica that has requests.
fn replica_loads(dispatcher: &Dispatcher<Arc<Upstream>, WaiterHandle>) -> ReplicaLoads {
    dispatcher
        .endpoints()
        .map(|(upstream, ..)| (upstream.name.clone(), upstream.load.get()))
        .filter(|(_, load)| *load != ReplicaLoad::default())
        .collect()
}

/// Returns the replicas whose certificates are not trusted.
fn untrusted(dispatcher: &Dispatcher<Arc<Upstream>, WaiterHandle>, now: Instant) -> UntrustedReplicas {
    let replicas = dispatcher.endpoints();
    replicas.filter_map(|(upstream, ..)| Some((upstream.name.clone(), upstream.distrust(now)?))).collect()
}

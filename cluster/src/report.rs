//! A gateway's report: load, delays and batches of each revision.

mod batches;
mod buckets;
mod histogram;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use batches::{BatchTimes, Batches};
pub use histogram::Histogram;

use crate::RevisionName;

/// One gateway's report. All counters start at zero when the gateway starts, so a skipped report is contained in the
/// next one; readers take differences with [`Activity::since`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Start time of the gateway, in seconds since 1970. A different value means that all counters started again from
    /// zero.
    pub started: u64,
    /// Time since the start in microseconds, measured by the gateway's own clock.
    pub age_us: u64,
    /// Generation of the route table that the gateway has applied.
    pub routes: u64,
    /// Activity of every revision that the gateway routes to, and the requests at replicas of former ones.
    pub revisions: BTreeMap<RevisionName, Arc<Activity>>,
}

/// Activity of one revision as measured by one gateway.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Requests received, refused ones included.
    pub arrivals: u64,
    /// Requests with a response other than a server error of Weir or the replica.
    pub succeeded: u64,
    /// Requests that ended with a server error: HTTP 5xx, or the corresponding gRPC status.
    pub failed: u64,
    /// Refused requests: the queue was full, or no replica had capacity for them.
    pub refused: u64,
    /// Requests that arrived while the revision was at zero replicas.
    pub woken: u64,
    /// Requests waiting in the queue now.
    pub queued: u32,
    /// Requests in flight at replicas now.
    pub in_flight: u32,
    /// Requests that the gateway may have in flight at the revision's ready replicas at once, in total: its share of
    /// the replicas' capacity, so that the gateways' shares add up to that capacity. 0 while no replica is ready.
    pub credits: u32,
    /// Waiting time so far of the oldest queued request, in microseconds.
    pub oldest_us: u64,
    /// Time for which a request waited until it was sent to a replica, without the upload of its body before.
    pub queue_delay: Histogram,
    /// Time from sending the request to a replica to the end of the response.
    pub service_time: Histogram,
    /// Batches, as reported by the replicas.
    pub batches: Batches,
    /// Requests in flight at each replica now; a replica that is not listed has none.
    pub replica_loads: ReplicaLoads,
    /// Replicas whose certificates the gateway does not trust.
    pub untrusted: UntrustedReplicas,
}

impl Report {
    /// Time without a report after which a gateway counts as silent. Reports arrive every second; four may be lost.
    pub const SILENT_AFTER: Duration = Duration::from_secs(5);
}

impl Activity {
    /// Returns the activity since an earlier report of the same gateway process. Current values (`queued`, `in_flight`,
    /// `credits`, `oldest_us`, `replica_loads`, `untrusted`) are kept as they are. If counters fell because the gateway
    /// restarted, the whole report counts as new.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let Self {
            arrivals,
            succeeded,
            failed,
            refused,
            woken,
            queued,
            in_flight,
            credits,
            oldest_us,
            queue_delay,
            service_time,
            batches,
            replica_loads,
            untrusted,
        } = self;
        if *arrivals < earlier.arrivals {
            return self.clone();
        }
        Self {
            arrivals: arrivals - earlier.arrivals,
            succeeded: succeeded.saturating_sub(earlier.succeeded),
            failed: failed.saturating_sub(earlier.failed),
            refused: refused.saturating_sub(earlier.refused),
            woken: woken.saturating_sub(earlier.woken),
            queued: *queued,
            in_flight: *in_flight,
            credits: *credits,
            oldest_us: *oldest_us,
            queue_delay: queue_delay.since(&earlier.queue_delay),
            service_time: service_time.since(&earlier.service_time),
            batches: batches.since(&earlier.batches),
            replica_loads: replica_loads.clone(),
            untrusted: untrusted.clone(),
        }
    }

    /// Adds another gateway's activity of the same revision.
    pub fn merge(&mut self, other: &Self) {
        self.arrivals += other.arrivals;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.refused += other.refused;
        self.woken += other.woken;
        self.queued = self.queued.saturating_add(other.queued);
        self.in_flight = self.in_flight.saturating_add(other.in_flight);
        self.credits = self.credits.saturating_add(other.credits);
        self.oldest_us = self.oldest_us.max(other.oldest_us);
        self.queue_delay.merge(&other.queue_delay);
        self.service_time.merge(&other.service_time);
        self.batches.merge(&other.batches);
        add_replica_loads(&mut self.replica_loads, &other.replica_loads);
        add_untrusted_replicas(&mut self.untrusted, &other.untrusted);
    }
}

/// Requests in flight at one replica. Values are ordered by streams first: during a replica's shutdown, a short request
/// completes in time but a stream may not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReplicaLoad {
    /// Responses of unknown length in progress, such as token streams.
    pub streams: u32,
    /// All requests in flight, those of `streams` included.
    pub requests: u32,
}

/// Loads by replica name; a replica that is not listed has no requests.
pub type ReplicaLoads = BTreeMap<Arc<str>, ReplicaLoad>;

/// Adds the loads that another gateway has at the same replicas.
pub(crate) fn add_replica_loads(to: &mut ReplicaLoads, other: &ReplicaLoads) {
    for (name, load) in other {
        let sum = to.entry(name.clone()).or_default();
        sum.streams = sum.streams.saturating_add(load.streams);
        sum.requests = sum.requests.saturating_add(load.requests);
    }
}

/// Reasons why the certificates of replicas are not trusted, as clauses, by replica name; a replica that is not listed
/// is trusted, or was not connected to.
pub type UntrustedReplicas = BTreeMap<Arc<str>, Arc<str>>;

/// Adds the replicas that another gateway does not trust. A replica with two reasons keeps the first one.
pub(crate) fn add_untrusted_replicas(to: &mut UntrustedReplicas, other: &UntrustedReplicas) {
    for (name, because) in other {
        to.entry(name.clone()).or_insert_with(|| because.clone());
    }
}

//! A gateway's report: load, delays and batches of each revision.

mod batches;
mod buckets;
mod histogram;
mod replica_load;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use batches::{BatchTimes, Batches};
pub use histogram::Histogram;
pub(crate) use replica_load::add as add_replica_loads;
pub use replica_load::{ReplicaLoad, ReplicaLoads};

use crate::RevisionName;

/// One gateway's report. All counts begin with the gateway, so a report that was skipped is contained in
/// the next; readers take differences with [`Activity::since`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// When the gateway started, seconds since 1970: with another value all counts began anew.
    pub started: u64,
    /// Time since then, in microseconds, on the gateway's own clock.
    pub age_us: u64,
    /// The generation of routes that it has applied.
    pub routes: u64,
    /// Every revision that it routes to.
    pub revisions: BTreeMap<RevisionName, Arc<Activity>>,
}

/// One revision, as one gateway sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// Requests that came, refused ones included.
    pub arrivals: u64,
    /// Requests that were answered, and not by an error of ours or the replica's.
    pub succeeded: u64,
    /// Requests that ended with such an error: HTTP 5xx, or its like in gRPC.
    pub failed: u64,
    /// Requests that were refused: the queue was full, or no replica had room for them.
    pub refused: u64,
    /// Requests that met the revision at zero.
    pub woken: u64,
    /// Requests that wait now.
    pub queued: u32,
    /// Requests that are at a replica now.
    pub in_flight: u32,
    /// Requests that the gateway may have at the revision's ready replicas at once, all together: its
    /// share of what they take, so that the gateways' shares add up to it. 0 while none is ready.
    pub credits: u32,
    /// How long the one that waits longest has waited, in microseconds.
    pub oldest_us: u64,
    /// From arrival to being sent to a replica.
    pub queue_delay: Histogram,
    /// From being sent to a replica to the end of the answer.
    pub service_time: Histogram,
    /// Batches as the replicas report them.
    pub batches: Batches,
    /// Requests at each replica now; a replica that is not listed has none.
    pub replica_loads: ReplicaLoads,
}

impl Report {
    /// Time without a report after which a gateway counts as silent. Reports come each second; four may be lost.
    pub const SILENT_AFTER: Duration = Duration::from_secs(5);
}

impl Activity {
    /// Activity since an earlier report of the same gateway's run; what is so now (`queued`,
    /// `in_flight`, `credits`, `oldest_us`, `replica_loads`) stays. Counts that fell, because the gateway began anew, count as new.
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
        }
    }

    /// Adds another gateway's view of the same revision.
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
    }
}

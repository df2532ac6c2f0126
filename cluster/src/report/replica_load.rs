//! Number of requests in flight at single replicas.

use std::collections::BTreeMap;
use std::sync::Arc;

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
pub(crate) fn add(to: &mut ReplicaLoads, other: &ReplicaLoads) {
    for (name, load) in other {
        let sum = to.entry(name.clone()).or_default();
        sum.streams = sum.streams.saturating_add(load.streams);
        sum.requests = sum.requests.saturating_add(load.requests);
    }
}

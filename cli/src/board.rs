//! What is served and how it does, as the admin port's `/status` says it: made by `weir up`, read by
//! `weir status`.

use serde::{Deserialize, Serialize};

/// All services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Board {
    /// By namespace and name.
    pub(crate) services: Vec<ServiceRow>,
    /// What is wrong with the files as they are now; the last good state is served.
    pub(crate) problems: Vec<String>,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The condition `Ready`: `True`, `False` or `Unknown`.
    pub(crate) ready: String,
    /// Why, in one word.
    pub(crate) reason: Option<String>,
    /// Why, in a sentence.
    pub(crate) message: Option<String>,
    /// Where it is reached on this machine, whatever the host.
    pub(crate) url: String,
    /// Where it is reached by its host.
    pub(crate) host_url: Option<String>,
    pub(crate) revisions: Vec<RevisionRow>,
}

/// One revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RevisionRow {
    pub(crate) name: String,
    /// Its share of the requests.
    pub(crate) traffic_percent: f64,
    /// Names of its own.
    pub(crate) tags: Vec<String>,
    /// Replicas that take requests.
    pub(crate) ready: usize,
    /// Replicas that are asked for.
    pub(crate) wanted: u32,
    /// Requests that wait.
    pub(crate) queued: u32,
    /// Requests at a replica.
    pub(crate) in_flight: u32,
    /// Requests so far.
    pub(crate) arrivals: u64,
    /// Requests so far that ended with an error of ours or the replica's.
    pub(crate) failed: u64,
    /// How long requests waited for a replica, the median since the gateway began.
    pub(crate) queue_delay_p50_ms: Option<f64>,
    /// The same, the 99th percentile.
    pub(crate) queue_delay_p99_ms: Option<f64>,
    /// What keeps it from being ready.
    pub(crate) failure: Option<String>,
    /// Why it has so many replicas, as the autoscaler says.
    pub(crate) scaled: Option<String>,
}

//! The admin port's `/status` page: made by `weir up`, read by `weir status`.

use serde::{Deserialize, Serialize};

/// The status of all services, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusTable {
    /// Services in the order of namespace and name.
    pub(crate) services: Vec<ServiceRow>,
    /// Errors of the files as they are now; objects with errors keep their last valid version.
    pub(crate) problems: Vec<String>,
}

/// The status of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The condition `Ready`: `True`, `False` or `Unknown`.
    pub(crate) ready: String,
    /// Reason of that condition, one word.
    pub(crate) reason: Option<String>,
    /// Message of that condition, a sentence.
    pub(crate) message: Option<String>,
    /// URL on this machine, by the service's path.
    pub(crate) url: String,
    /// URL by the service's host.
    pub(crate) host_url: Option<String>,
    /// What the other fields do not show, a sentence each: fields without effect, the rollout, restarts.
    #[serde(default)]
    pub(crate) notes: Vec<String>,
    pub(crate) revisions: Vec<RevisionRow>,
}

/// The status of one revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RevisionRow {
    pub(crate) name: String,
    /// Share of the service's requests, in percent.
    pub(crate) traffic_percent: f64,
    /// Tags by which requests name the revision.
    pub(crate) tags: Vec<String>,
    /// Number of replicas that take requests.
    pub(crate) ready: usize,
    /// Number of replicas that there should be.
    pub(crate) wanted: u32,
    /// Number of requests in the queue.
    pub(crate) queued: u32,
    /// Number of requests at replicas.
    pub(crate) in_flight: u32,
    /// Number of requests since the gateway started.
    pub(crate) arrivals: u64,
    /// Number of those that ended with an error of the gateway or a replica.
    pub(crate) failed: u64,
    /// Number of those that were refused for lack of capacity.
    #[serde(default)]
    pub(crate) refused: u64,
    /// Median time that requests waited for a replica, in milliseconds, since the gateway started.
    pub(crate) queue_delay_p50_ms: Option<f64>,
    /// 99th percentile of that time, in milliseconds.
    pub(crate) queue_delay_p99_ms: Option<f64>,
    /// Number of restarts of its replicas.
    #[serde(default)]
    pub(crate) restarts: u32,
    /// Failure that keeps the revision from being ready.
    pub(crate) failure: Option<String>,
    /// Latest end of a replica's program that was not asked for, also once it serves again.
    #[serde(default)]
    pub(crate) last_exit: Option<ExitRow>,
    /// The autoscaler's reason for the number of replicas.
    pub(crate) scaled: Option<String>,
    /// Time that nine of ten starts of a replica take at most, in milliseconds, as the autoscaler takes it.
    #[serde(default)]
    pub(crate) cold_start_ms: Option<f64>,
    /// Times that the latest starts of the service's replicas took, in milliseconds, oldest first.
    #[serde(default)]
    pub(crate) starts_ms: Vec<f64>,
    /// Share of its requests that waited no longer than the policy's delay, since the autoscaler leads.
    #[serde(default)]
    pub(crate) attainment: Option<f64>,
    /// Share of its replicas' time without a request, at the least.
    #[serde(default)]
    pub(crate) idleness: Option<f64>,
}

/// An end of a replica's program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExitRow {
    pub(crate) replica: String,
    /// Reason of the end, one word.
    pub(crate) reason: String,
    /// A sentence that says how the run ended.
    pub(crate) message: String,
    /// Exit status: its code, or 128 and the number of the signal.
    pub(crate) exit_code: Option<i32>,
    /// Time in RFC 3339, in UTC.
    pub(crate) at: Option<String>,
}

//! The admin port's `/status` page, which `weir up` writes and `weir status` reads.

use serde::{Deserialize, Serialize};

/// The status of all services, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct StatusTable {
    /// Services in the order of namespace and name.
    pub(crate) services: Vec<ServiceRow>,
    /// Errors of the files in their present state; objects with errors keep their last valid version.
    pub(crate) problems: Vec<String>,
}

/// The status of one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceRow {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The condition `Ready`: `True`, `False` or `Unknown`.
    pub(crate) ready: String,
    /// Reason of the `Ready` condition, one word; None if the condition has none.
    pub(crate) reason: Option<String>,
    /// Message of the `Ready` condition, a sentence; None if the condition has none.
    pub(crate) message: Option<String>,
    /// URL on this machine, with the service's path.
    pub(crate) url: String,
    /// URL with the service's host name; None if the status has no URL.
    pub(crate) host_url: Option<String>,
    /// Notes, a sentence each, on what the other fields do not show: ignored fields, the rollout, restarts.
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
    /// Number of replicas that are ready for requests.
    pub(crate) ready: usize,
    /// Number of desired replicas.
    pub(crate) wanted: u32,
    /// Number of requests that wait in the queue.
    pub(crate) queued: u32,
    /// Number of requests in flight at replicas.
    pub(crate) in_flight: u32,
    /// Number of requests since the gateway started.
    pub(crate) arrivals: u64,
    /// Number of requests that ended with an error of the gateway or of a replica.
    pub(crate) failed: u64,
    /// Number of requests refused for lack of capacity.
    #[serde(default)]
    pub(crate) refused: u64,
    /// Median time in the queue, in milliseconds, since the gateway started; None before the first request.
    pub(crate) queue_delay_p50_ms: Option<f64>,
    /// 99th percentile of the time in the queue, in milliseconds, since the gateway started; None before the first
    /// request.
    pub(crate) queue_delay_p99_ms: Option<f64>,
    /// Number of restarts of the revision's replicas.
    #[serde(default)]
    pub(crate) restarts: u32,
    /// Reason that the revision is not ready; None if a replica is ready or none has failed.
    pub(crate) failure: Option<String>,
    /// Latest unexpected exit of a replica's program. It stays after the replica is ready again. None if there was
    /// none.
    #[serde(default)]
    pub(crate) last_exit: Option<ExitRow>,
    /// The autoscaler's desired number of replicas and its reason; None if it has not decided on this revision.
    pub(crate) scaled: Option<String>,
    /// Start time of a replica that the autoscaler assumes, in milliseconds: nine of ten starts take at most this long.
    /// None if the autoscaler has not decided on this revision.
    #[serde(default)]
    pub(crate) cold_start_ms: Option<f64>,
    /// Durations of the latest starts of the service's replicas, in milliseconds, oldest first.
    #[serde(default)]
    pub(crate) starts_ms: Vec<f64>,
    /// Share of requests that waited no longer than the policy's queue delay, since this autoscaler began to lead; None
    /// before the first request.
    #[serde(default)]
    pub(crate) attainment: Option<f64>,
    /// Lower bound of the share of ready replica time without a request; None before a replica was ready.
    #[serde(default)]
    pub(crate) idleness: Option<f64>,
}

/// Exit of a replica's program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ExitRow {
    pub(crate) replica: String,
    /// Reason of the exit, one word.
    pub(crate) reason: String,
    /// A sentence that describes the exit.
    pub(crate) message: String,
    /// Exit status: the exit code, or 128 plus the number of the signal; None if unknown.
    pub(crate) exit_code: Option<i32>,
    /// Time of the exit, in RFC 3339 and UTC; None if unknown.
    pub(crate) at: Option<String>,
}

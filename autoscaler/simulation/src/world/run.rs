//! Record of a simulation.

use std::time::Duration;

/// Record of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// End of the simulation.
    pub until: Duration,
    /// States after each decision.
    pub frames: Vec<Frame>,
    /// Requests that reached a replica, in that order.
    pub waits: Vec<Wait>,
    /// Arrival times of the requests still queued at the end.
    pub waiting: Vec<Duration>,
    /// Number of replicas that were started.
    pub starts: u32,
    /// Number of starts that failed and were retried.
    pub failed_starts: u32,
    /// Number of GPUs that were reclaimed under a replica.
    pub reclaimed: u32,
    /// Most GPUs in use at once.
    pub peak: u32,
    /// GPU time of all replicas, from the allocation of the GPU to the end of the replica.
    pub replica_time: Duration,
    /// Part of the GPU time on spot GPUs.
    pub spot_time: Duration,
    /// GPU time of nodes that linger after their replica ended.
    pub node_time: Duration,
    /// Total time in which replicas worked.
    pub busy_time: Duration,
}

/// State after one decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Time of the decision.
    pub at: Duration,
    /// Desired number of replicas.
    pub desired: u32,
    /// Replicas that are ready for requests.
    pub ready: u32,
    /// Requests that arrived since the last decision.
    pub arrivals: u64,
    /// Requests in the queue.
    pub queued: u32,
    /// Requests in flight at replicas.
    pub in_flight: u32,
}

/// A request that reached a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Time of the request's arrival.
    pub arrived: Duration,
    /// Time in the queue.
    pub waited: Duration,
}

//! Record of a simulation.

use std::time::Duration;

/// Record of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// The time at which it ended.
    pub until: Duration,
    /// The state after each decision.
    pub frames: Vec<Frame>,
    /// The requests that reached a replica, in that order.
    pub waits: Vec<Wait>,
    /// Arrival times of the requests that still wait at the end.
    pub waiting: Vec<Duration>,
    /// Replicas that were started.
    pub starts: u32,
    /// Starts that failed and were begun anew.
    pub failed_starts: u32,
    /// GPUs that were taken away under a replica.
    pub reclaimed: u32,
    /// Most GPUs in use at once.
    pub peak: u32,
    /// GPU time of all replicas together, from when each got its GPU to its end.
    pub replica_time: Duration,
    /// The part of it on GPUs that may be taken away.
    pub spot_time: Duration,
    /// GPU time of nodes that stayed although their replica had left.
    pub node_time: Duration,
    /// Time in which replicas worked, all together.
    pub busy_time: Duration,
}

/// The state after one decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Time of the decision.
    pub at: Duration,
    /// Replicas that were asked for.
    pub desired: u32,
    /// Replicas that take requests.
    pub ready: u32,
    /// Requests that came since the last decision.
    pub arrivals: u64,
    /// Requests in the queue.
    pub queued: u32,
    /// Requests at a replica.
    pub in_flight: u32,
}

/// A request that reached a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Time of its arrival.
    pub arrived: Duration,
    /// Time that it waited.
    pub waited: Duration,
}

//! Worth of avoiding a cold start, by the economy that a policy chooses.

use std::time::Duration;

use weir_cluster::Economy;

/// Returns the worth of avoiding a cold start, as a multiple of the cold-start time, before it is known how often
/// requests wait for one. With 1, an idle replica is kept for as long as a start takes, so the GPU time, starts
/// included, is at most twice that of an autoscaler that knows the future. A higher value pays for shorter waits.
pub(crate) fn starts(economy: Economy) -> f64 {
    match economy {
        Economy::Economy => 1.0,
        Economy::Balanced => 3.0,
        Economy::Latency => 10.0,
    }
}

/// Returns the highest worth of avoiding a cold start, as a multiple of the cold-start time. The factor 5 lets even a
/// replica that is needed for only a fifth of the cold-start time at once be kept for the longest allowed time.
pub(crate) fn most_starts(economy: Economy, cold_start: Duration) -> f64 {
    5.0 * longest(economy).as_secs_f64() / cold_start.as_secs_f64().max(1.0)
}

/// Returns the longest time that an idle replica is kept, however long a start takes.
pub(crate) fn longest(economy: Economy) -> Duration {
    match economy {
        Economy::Economy => Duration::from_secs(5 * 60),
        Economy::Balanced => Duration::from_secs(30 * 60),
        Economy::Latency => Duration::from_secs(4 * 60 * 60),
    }
}

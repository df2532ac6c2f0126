//! Worth of a start, by the economy that a policy chooses.

use std::time::Duration;

use weir_cluster::Economy;

/// Returns the initial worth of a start, in lengths of a start, before it is known how often requests wait for one. A
/// worth of 1 is break-even if only the time of the start counts: the cost is then at most twice that of knowing the
/// future. More than 1 is for the requests that would wait for the start.
pub(crate) fn starts(economy: Economy) -> f64 {
    match economy {
        Economy::Economy => 1.0,
        Economy::Balanced => 3.0,
        Economy::Latency => 10.0,
    }
}

/// Returns the highest worth of a start, in lengths of a start. With it a replica that is needed for only a fifth of a
/// start at a time is kept for the longest allowed time.
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

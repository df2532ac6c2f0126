//! What a start may be worth, by the economy that a policy asks for.

use std::time::Duration;

use weir_cluster::Economy;

/// What a start is worth before it is known how often requests wait for one, in lengths of a start. Once is
/// break-even: at worst twice the cost of knowing the future, when only its own time counts. The rest is for
/// requests that would wait for the start.
pub(crate) fn starts(economy: Economy) -> f64 {
    match economy {
        Economy::Economy => 1.0,
        Economy::Balanced => 3.0,
        Economy::Latency => 10.0,
    }
}

/// The most that a start may be worth, in lengths of a start: so much that a replica which is needed for a fifth of a
/// start at a time is kept as long as any may be.
pub(crate) fn most_starts(economy: Economy, cold_start: Duration) -> f64 {
    5.0 * longest(economy).as_secs_f64() / cold_start.as_secs_f64().max(1.0)
}

/// The longest that a replica is kept idle, however long it takes to start.
pub(crate) fn longest(economy: Economy) -> Duration {
    match economy {
        Economy::Economy => Duration::from_secs(5 * 60),
        Economy::Balanced => Duration::from_secs(30 * 60),
        Economy::Latency => Duration::from_secs(4 * 60 * 60),
    }
}

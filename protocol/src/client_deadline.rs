//! Blame for deadlines that clients set themselves.

use std::time::Duration;

use crate::Blame;

/// Shortest deadline set by a client whose passing counts against the server.
///
/// A deadline that any client can choose must not decide if a revision counts as failing: with one millisecond, every
/// model misses it. One second is longer than nearly every model needs for a request, and clients of slower models know
/// that and set longer deadlines. This hides no failure: a replica that hangs is found by its probes and by the age of
/// its batch, and the service's own timeout counts, however short it is.
const SHORTEST_COUNTED: Duration = Duration::from_secs(1);

/// Returns the blame for a response that misses a client's own deadline of `time`, counted from the end of the request.
#[must_use]
pub fn blame_for_client_deadline(time: Duration) -> Blame {
    if time < SHORTEST_COUNTED { Blame::Caller } else { Blame::Server }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_under_a_second_are_blamed_on_the_caller() {
        let of = |ms| blame_for_client_deadline(Duration::from_millis(ms));
        assert_eq!((of(0), of(999)), (Blame::Caller, Blame::Caller));
        assert_eq!((of(1000), of(60_000)), (Blame::Server, Blame::Server));
    }
}

//! Deadlines that clients set themselves.

use std::time::Duration;

use crate::Blame;

/// Shortest time of a client's own whose passing counts against who did not answer in it.
///
/// A time that anybody chooses must not decide on a revision: with a millisecond, every model fails. A second is longer
/// than nearly every model takes for a request, and what takes longer has clients that know, and ask for more. Nothing
/// is hidden by it: a replica that hangs is found by its probes and by the age of its batch, and the service's own
/// timeout counts, however short.
const SHORTEST_COUNTED: Duration = Duration::from_secs(1);

/// Whose doing it is that an answer does not come within a client's own `time`, which it had from its whole request on.
#[must_use]
pub fn blame_of_own_deadline(time: Duration) -> Blame {
    if time < SHORTEST_COUNTED { Blame::Caller } else { Blame::Server }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_than_a_second_is_the_callers_choice() {
        let of = |ms| blame_of_own_deadline(Duration::from_millis(ms));
        assert_eq!((of(0), of(999)), (Blame::Caller, Blame::Caller));
        assert_eq!((of(1000), of(60_000)), (Blame::Server, Blame::Server));
    }
}

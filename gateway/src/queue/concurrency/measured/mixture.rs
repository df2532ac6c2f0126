//! The requests in a server after its limit shrank.

use std::time::{Duration, Instant};

/// Mixture of short and long requests in a server. When a limit shrinks, no request follows those that end, and the
/// short ones end first. The server is left with long ones, and answers fewer requests per second than with the same
/// limit later. In a test in which one request in ten takes fifty times as long as the others, a halved limit had no
/// answer for as long as a window, and looked worse than any larger limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mixture {
    /// The limit has just shrunk.
    Shrunk,
    /// `left` requests that were sent until `since` are still in the server, which has given `answers` answers since
    /// then.
    Old { since: Instant, left: u32, answers: u32 },
    /// The requests are those that the limit brings in the long run.
    Steady,
}

impl Mixture {
    /// Records an answer to a request that was sent `took` ago. Returns true once the old requests are answered. A
    /// request may stay for hours, as a WebSocket does, so `most` answers are enough.
    pub(super) fn is_steady(&mut self, in_flight: u32, most: u32, took: Duration, now: Instant) -> bool {
        match self {
            Self::Steady => return true,
            Self::Shrunk => *self = Self::Old { since: now, left: in_flight.saturating_sub(1), answers: 0 },
            Self::Old { since, left, answers } => {
                *answers += 1;
                if now.checked_sub(took).is_none_or(|sent| sent <= *since) {
                    *left = left.saturating_sub(1);
                }
                if *left == 0 || *answers >= most {
                    *self = Self::Steady;
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn requests_that_were_sent_before_the_limit_shrank_are_answered_first() {
        let (mut mixture, start) = (Mixture::Shrunk, Instant::now() + Duration::from_secs(60));
        let (second, long) = (Duration::from_secs(1), Duration::from_secs(30));
        assert!(!mixture.is_steady(3, 100, second, start));
        // New requests are answered while two old ones are in the server.
        let later = start + 10 * second;
        assert!(!mixture.is_steady(2, 100, second, later));
        assert!(!mixture.is_steady(2, 100, long, later));
        assert!(!mixture.is_steady(2, 100, long, later));
        assert!(mixture.is_steady(2, 100, second, later));
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn a_request_that_never_ends_does_not_stop_the_measurement() {
        let (mut mixture, start) = (Mixture::Shrunk, Instant::now());
        let steady = (0..100).position(|_| mixture.is_steady(8, 20, Duration::ZERO, start + Duration::from_secs(1)));
        assert!(steady.is_some_and(|answers| answers <= 22), "{steady:?}");
    }
}

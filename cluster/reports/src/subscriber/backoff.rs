//! The delay before reconnecting to a gateway.

use std::time::Duration;

/// Delay after the first failure; a replaced gateway is back within a few of these.
const FIRST: Duration = Duration::from_millis(100);

/// Maximum delay, short because reports arrive every second.
const LONGEST: Duration = Duration::from_secs(2);

/// Number of doublings after which the delay exceeds [`LONGEST`].
const MAX_DOUBLINGS: u32 = 5;

/// Number of consecutive failures of one subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Returns true if no attempt has failed since the last report.
    pub(super) fn is_first(self) -> bool {
        self.failures == 0
    }

    /// Counts one more failure and returns the delay after it.
    pub(super) fn next(&mut self) -> Duration {
        let pause = FIRST * (1 << self.failures.min(MAX_DOUBLINGS));
        self.failures = self.failures.saturating_add(1);
        pause.min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::default();
        assert!(backoff.is_first());
        let pauses: Vec<_> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 2000, 2000, 2000]);
        assert!(!backoff.is_first());
    }
}

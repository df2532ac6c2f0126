//! Delays between failed attempts. Pure.

use std::time::Duration;

/// Delay after the first failure; each further failure doubles it.
const FIRST: Duration = Duration::from_secs(1);

/// Longest delay, so that a repair takes effect within a minute.
const LONGEST: Duration = Duration::from_secs(60);

/// Consecutive failures of one service, and the time of the next attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Retry {
    failures: u32,
    /// Time of the next attempt in seconds since 1970; 0 means at once.
    not_before: u64,
}

impl Retry {
    /// Returns the delay after one more failure.
    pub(super) fn delay(self) -> Duration {
        let factor = 1_u32.checked_shl(self.failures).unwrap_or(u32::MAX);
        FIRST.saturating_mul(factor).min(LONGEST)
    }

    /// Returns the state after a failure at `now`.
    pub(super) fn failed(self, now: u64) -> Self {
        Self { failures: self.failures.saturating_add(1), not_before: now.saturating_add(self.delay().as_secs()) }
    }

    /// Returns true if the next attempt may begin.
    pub(super) fn is_due(self, now: u64) -> bool {
        now >= self.not_before
    }

    /// Returns true if the last attempt failed.
    pub(super) fn is_failing(self) -> bool {
        self.failures > 0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn delays_grow_up_to_a_minute(failures in 0_u32..200, now in 0..u64::MAX / 2) {
            let retry = (0..failures).fold(Retry::default(), |retry, _| retry.failed(now));
            prop_assert!(retry.delay() >= FIRST && retry.delay() <= LONGEST);
            prop_assert_eq!(retry.is_due(now), failures == 0);
            prop_assert!(retry.is_due(now + LONGEST.as_secs()));
            prop_assert!(retry.failed(now).delay() >= retry.delay());
        }
    }
}

//! The wait before a gateway is dialled again.

use std::time::Duration;

/// A gateway that was just replaced is there again within a few of these.
const FIRST: Duration = Duration::from_millis(100);

/// A gateway that comes back is not missed for longer: reports come each second.
const LONGEST: Duration = Duration::from_secs(2);

/// `FIRST` doubled so often is more than [`LONGEST`].
const MAX_DOUBLINGS: u32 = 5;

/// Failures in a row of one subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Whether nothing has failed since it was last received.
    pub(super) fn is_first(self) -> bool {
        self.failures == 0
    }

    /// The pause after one failure more.
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

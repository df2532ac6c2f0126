//! The limit on the run time of a batch: a pure function.

use std::time::Duration;

/// Shortest measured limit: a first batch may have to be compiled, which takes tens of seconds.
const LEAST: Duration = Duration::from_secs(60);

/// Measured limit as a multiple of the longest batch so far. Requests of one model differ in length and number of rows,
/// but rarely by more than this.
const FACTOR: u32 = 10;

/// Limit on the run time of a batch (`--max-batch-seconds`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchLimit {
    /// Ten times the longest batch of the model so far, and at least a minute.
    Measured,
    /// This time for every model.
    Fixed(Duration),
    /// No limit for any model.
    Unlimited,
}

impl BatchLimit {
    /// Returns the limit for a model whose longest batch so far took `longest`, which is zero before the first; `None`
    /// means no limit.
    pub(crate) fn after(self, longest: Duration) -> Option<Duration> {
        match self {
            Self::Measured => Some(longest.saturating_mul(FACTOR).max(LEAST)),
            Self::Fixed(limit) => Some(limit),
            Self::Unlimited => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_batch_no_longer_than_an_earlier_one_is_never_stuck(longest in any::<Duration>()) {
            let limit = BatchLimit::Measured.after(longest).unwrap();
            prop_assert!(limit >= longest && limit >= LEAST);
            prop_assert!(limit == LEAST || limit == longest.saturating_mul(10));
        }

        #[test]
        fn a_limit_never_falls(one in any::<Duration>(), other in any::<Duration>()) {
            let (shorter, longer) = (one.min(other), one.max(other));
            prop_assert!(BatchLimit::Measured.after(shorter) <= BatchLimit::Measured.after(longer));
        }

        #[test]
        fn a_fixed_limit_does_not_depend_on_measurements(limit in any::<Duration>(), longest in any::<Duration>()) {
            prop_assert_eq!(BatchLimit::Fixed(limit).after(longest), Some(limit));
            prop_assert_eq!(BatchLimit::Unlimited.after(longest), None);
        }
    }
}

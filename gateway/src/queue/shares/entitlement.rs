//! The credits that a client may hold at once.
//!
//! A replica finishes what it has begun. If one client held all credits, the next request of another client would have
//! to wait until a request ends, which may take long. So credits are kept free for clients that have used them
//! recently. A client that needs more than its part of the credits leaves as many to the others as they together have
//! held at once within the last seconds. A client alone holds all.

/// Credits of the replicas that take requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Supply {
    pub(crate) total: u32,
    pub(crate) free: u32,
}

impl Supply {
    /// Returns the number of credits that a weight of one gives among clients with this sum of weights.
    pub(super) fn credits(self, weights: u64) -> f64 {
        f64::from(self.total) / weights.max(1) as f64
    }
}

/// A client's claim to one more credit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Claim {
    /// Credits that the client holds.
    pub(super) held: u32,
    /// Part of all credits that its weight gives it among the clients of the last seconds.
    pub(super) part: f64,
    /// Credit-seconds of its part that the client has not used recently; negative if it wanted more than its part.
    pub(super) balance: f64,
    /// Credits that all others hold.
    pub(super) others: u32,
    /// Maximum number of credits that all others together have held at once within the last seconds.
    pub(super) others_recently: u32,
}

/// Returns true if a client that holds `held` credits may have one more of its part, which may always be one credit.
pub(super) fn is_within_part(held: u32, part: f64) -> bool {
    held < (part as u32).max(1)
}

impl Claim {
    /// Returns true if the client may have one of the free credits.
    pub(super) fn is_granted(&self, free: u32) -> bool {
        // A client within its part on average may use more for a moment, as requests do not arrive evenly.
        let has_saved = self.balance > 0.0;
        let kept = self.others_recently.saturating_sub(self.others);
        free > 0 && (is_within_part(self.held, self.part) || has_saved || free > kept)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims() -> impl Strategy<Value = Claim> {
        (0_u32..100, 0.0..100.0_f64, -10.0..10.0_f64, 0_u32..100, 0_u32..100).prop_map(
            |(held, part, balance, others, more)| Claim { held, part, balance, others, others_recently: others + more },
        )
    }

    proptest! {
        #[test]
        fn a_client_without_others_gets_every_credit(claim in claims(), free in 1_u32..100) {
            let alone = Claim { others: 0, others_recently: 0, ..claim };
            prop_assert!(alone.is_granted(free));
        }

        #[test]
        fn a_client_within_its_part_gets_any_free_credit(claim in claims(), free in 1_u32..100) {
            let held = (claim.part as u32).saturating_sub(1);
            let within = Claim { held, ..claim };
            prop_assert!(within.is_granted(free));
            prop_assert!(!within.is_granted(0));
        }

        #[test]
        fn a_client_above_its_part_leaves_what_others_have_used(claim in claims(), free in 0_u32..100) {
            let above = Claim { held: claim.held.max(claim.part as u32).max(1), balance: -1.0, ..claim };
            let left = free.saturating_sub(1) + above.others;
            prop_assert_eq!(above.is_granted(free), free > 0 && left >= above.others_recently);
        }

        #[test]
        fn more_free_credits_never_hurt(claim in claims(), free in 0_u32..100) {
            prop_assert!(!claim.is_granted(free) || claim.is_granted(free + 1));
        }
    }
}

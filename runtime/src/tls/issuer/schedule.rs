//! Times at which a certificate is renewed and expires. Pure.

use std::time::Duration;

use tokio::time::Instant;

/// Pauses after failures: the shortest and the longest. Each is twice as long as the one before it.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// Longest time in seconds that is accepted, about a year, so that no response overflows a clock.
const LONGEST: u64 = 366 * 24 * 3600;

/// Part of a certificate's validity that is left out at its end, because the clock of a gateway may be ahead of the one
/// that set the end. Certificates of an hour or less have no such part.
const MARGIN: Duration = Duration::from_secs(300);

/// Next request for a certificate, and the end of the one in use.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Schedule {
    /// `None` before the first request.
    next: Option<Instant>,
    /// `None` without a valid certificate.
    expiry: Option<Instant>,
    /// Pause after the last failure; `None` after a success.
    pause: Option<Duration>,
}

impl Schedule {
    /// Records a certificate that was requested at the time `asked`. It is valid for `valid` seconds from then on, and
    /// is to be renewed after `renew` seconds.
    pub(super) fn renewed(&mut self, asked: Instant, valid: u64, renew: u64) {
        let valid = Duration::from_secs(valid.min(LONGEST));
        let valid = if valid > 12 * MARGIN { valid - MARGIN } else { valid };
        let renew = Duration::from_secs(renew).clamp(PAUSES.0, valid.max(PAUSES.0));
        *self = Self { next: Some(asked + renew), expiry: Some(asked + valid), pause: None };
    }

    /// Records a request that failed at this time.
    pub(super) fn failed(&mut self, now: Instant) {
        let pause = self.pause.map_or(PAUSES.0, |pause| (2 * pause).min(PAUSES.1));
        (self.next, self.pause) = (Some(now + pause), Some(pause));
    }

    /// Returns the end of the certificate in use if it comes before the next request.
    pub(super) fn expiry_before_next(&self) -> Option<Instant> {
        self.expiry.filter(|expiry| self.next.is_some_and(|next| *expiry < next))
    }

    /// Records that the certificate is not in use any more.
    pub(super) fn expired(&mut self) {
        self.expiry = None;
    }

    /// Returns the time of the next request.
    pub(super) fn next(&self) -> Instant {
        self.next.unwrap_or_else(crate::clock::now)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_certificate_is_renewed_before_it_expires_and_never_used_longer(valid in 2_u64.., renew in any::<u64>()) {
            let (begin, mut schedule) = (crate::clock::now(), Schedule::default());
            schedule.renewed(begin, valid, renew);
            let validity = Duration::from_secs(valid.min(LONGEST));
            let expiry = schedule.expiry.unwrap();
            prop_assert!(expiry <= begin + validity && expiry + MARGIN >= begin + validity);
            prop_assert!(schedule.next() > begin && schedule.next() <= expiry);
        }

        #[test]
        fn failures_are_repeated_for_ever_with_bounded_pauses(failures in 1_usize..100, valid in 2_u64..100_000) {
            let (mut now, mut schedule) = (crate::clock::now(), Schedule::default());
            schedule.renewed(now, valid, valid / 2);
            for _ in 0..failures {
                schedule.failed(now);
                let pause = schedule.next() - now;
                prop_assert!(pause >= PAUSES.0 && pause <= PAUSES.1);
                if let Some(expiry) = schedule.expiry_before_next() {
                    prop_assert!(expiry <= schedule.next());
                    schedule.expired();
                }
                now = schedule.next();
            }
            // A long failure leaves no certificate in use.
            prop_assert!(schedule.expiry.is_none_or(|expiry| expiry >= now));
        }
    }
}

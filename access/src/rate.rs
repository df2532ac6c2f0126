//! A limit of units per time, and the decisions about it.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::{Duration, Instant};

use crate::division::part_of_burst;

/// Unit of a limit per time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Requests, which are counted before they begin.
    Requests,
    /// Bytes of the bodies of requests and responses, which are counted as they pass.
    Bytes,
    /// Tokens of language models, whose number only the end of a response contains.
    Tokens,
}

/// A limit of units per time, by the generic cell rate algorithm: a bucket whose whole state is the time at which it is
/// full again. The cost of a request in bytes or tokens is known only afterwards, so a bucket of these may be below
/// zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    per_minute: NonZeroU64,
    burst: NonZeroU64,
    /// Number of gateways that divide the rate.
    gateways: NonZeroU32,
}

/// Divisor of a minute's units for the content of a full bucket, if no burst is configured.
const BURST_PART: u64 = 6;

impl Rate {
    /// Creates a rate. `burst` is the content of a full bucket; `None` for a sixth of a minute's units.
    pub(crate) fn new(per_minute: NonZeroU64, burst: Option<NonZeroU64>) -> Self {
        let part = NonZeroU64::new(per_minute.get() / BURST_PART).unwrap_or(NonZeroU64::MIN);
        Self { per_minute, burst: burst.unwrap_or(part), gateways: NonZeroU32::MIN }
    }

    /// Returns one gateway's part of a rate that is for this number of gateways together.
    #[must_use]
    pub fn divided(self, gateways: NonZeroU32) -> Self {
        Self { burst: part_of_burst(self.burst, gateways), gateways, ..self }
    }

    /// Decides about a request at `now` that costs one unit. `full_at` is the time at which the bucket is full; `None`
    /// for a full one. Returns the new time.
    ///
    /// # Errors
    /// The time until a request would be accepted, if the bucket has less than one unit.
    pub fn take(self, full_at: Option<Instant>, now: Instant) -> Result<Instant, Duration> {
        let (missing, room) = (missing(full_at, now), self.time(self.burst.get() - 1));
        if missing > room { Err(missing - room) } else { Ok(self.charge(full_at, now, 1)) }
    }

    /// Decides about a request at `now` whose cost is not known yet. `full_at` is the time at which the bucket is full;
    /// `None` for a full one.
    ///
    /// # Errors
    /// The time until a request would be accepted, if the bucket is not above zero.
    pub fn check(self, full_at: Option<Instant>, now: Instant) -> Result<(), Duration> {
        let (missing, room) = (missing(full_at, now), self.time(self.burst.get()));
        if missing < room || room.is_zero() { Ok(()) } else { Err(missing - room + Duration::from_nanos(1)) }
    }

    /// Takes the cost of a request, even if the bucket has less. Returns the time at which the bucket is full.
    #[must_use]
    pub fn charge(self, full_at: Option<Instant>, now: Instant, units: u64) -> Instant {
        let begin = full_at.map_or(now, |at| at.max(now));
        begin.checked_add(self.time(units)).unwrap_or(begin)
    }

    /// Returns the time in which one gateway's bucket gets this many units.
    fn time(self, units: u64) -> Duration {
        let minute = Duration::from_secs(60).as_nanos() * u128::from(self.gateways.get());
        let nanoseconds = minute.saturating_mul(u128::from(units)) / u128::from(self.per_minute.get());
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

/// Returns the time until a bucket is full.
fn missing(full_at: Option<Instant>, now: Instant) -> Duration {
    full_at.map_or(Duration::ZERO, |at| at.saturating_duration_since(now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[expect(clippy::disallowed_methods, reason = "a rate compares times; tests need a first one")]
    fn start() -> Instant {
        Instant::now()
    }

    fn rate(per_minute: u64, burst: Option<u64>) -> Rate {
        Rate::new(NonZeroU64::new(per_minute).unwrap(), burst.and_then(NonZeroU64::new))
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_burst_is_accepted_and_then_one_request_per_interval() {
        let (now, rate) = (start(), rate(60, Some(3)));
        let mut full_at = None;
        for _ in 0..3 {
            full_at = Some(rate.take(full_at, now).unwrap());
        }
        assert_eq!(rate.take(full_at, now), Err(seconds(1)));
        full_at = Some(rate.take(full_at, now + seconds(1)).unwrap());
        assert_eq!(rate.take(full_at, now + seconds(1)), Err(seconds(1)));
    }

    #[test]
    fn a_bucket_holds_a_sixth_of_a_minutes_units() {
        assert_eq!([600, 6, 1].map(|per_minute| rate(per_minute, None).burst.get()), [100, 1, 1]);
    }

    #[test]
    fn gateways_divide_a_rate() {
        let (now, rate) = (start(), rate(60, Some(5)));
        let part = rate.divided(NonZeroU32::new(2).unwrap());
        assert_eq!(rate.divided(NonZeroU32::MIN), rate);
        let mut full_at = None;
        for _ in 0..3 {
            full_at = Some(part.take(full_at, now).unwrap());
        }
        assert_eq!(part.take(full_at, now), Err(seconds(2)));
        assert_eq!(part.charge(None, now, 60), now + seconds(120));
    }

    #[test]
    fn a_request_begins_above_zero_and_its_whole_cost_is_a_debt() {
        let (now, rate) = (start(), rate(60_000, None));
        assert_eq!(rate.check(None, now), Ok(()));
        let full_at = Some(rate.charge(None, now, 9_999));
        assert_eq!(rate.check(full_at, now), Ok(()));
        let full_at = Some(rate.charge(full_at, now, 60_001));
        assert_eq!(rate.check(full_at, now), Err(seconds(60) + Duration::from_nanos(1)));
        assert!(rate.check(full_at, now + seconds(60)).is_err());
        assert_eq!(rate.check(full_at, now + seconds(60) + Duration::from_nanos(1)), Ok(()));
    }

    #[test]
    fn no_number_overflows() {
        let (now, slow, fast) = (start(), rate(1, None), rate(u64::MAX, None));
        let full_at = slow.divided(NonZeroU32::MAX).charge(None, now, u64::MAX);
        assert!(slow.check(Some(full_at), now).is_err());
        assert!(slow.charge(Some(full_at), now, u64::MAX) >= full_at);
        assert_eq!(fast.check(Some(fast.charge(None, now, u64::MAX / 10)), now), Ok(()));
    }

    proptest! {
        #[test]
        fn no_more_is_accepted_than_the_burst_and_the_rate(
            pauses in proptest::collection::vec(0_u64..3000, 1..200),
            per_minute in 1_u64..600,
            burst in 1_u64..20,
        ) {
            let (begin, rate) = (start(), rate(per_minute, Some(burst)));
            let (mut now, mut full_at, mut accepted) = (begin, None, 0_u32);
            for pause in pauses {
                now += Duration::from_millis(pause);
                match rate.take(full_at, now) {
                    Ok(at) => (full_at, accepted) = (Some(at), accepted + 1),
                    Err(wait) => prop_assert!(rate.take(full_at, now + wait).is_ok()),
                }
                let most = burst as f64 + (now - begin).as_secs_f64() * per_minute as f64 / 60.0;
                prop_assert!(f64::from(accepted) <= most + 1e-6);
            }
        }

        #[test]
        fn debts_are_at_most_the_burst_the_rate_and_one_request(
            steps in proptest::collection::vec((0_u64..3000, 1_u64..5000), 1..200),
            per_minute in 1_u64..600_000,
            gateways in 1_u32..5,
        ) {
            let rate = rate(per_minute, None).divided(NonZeroU32::new(gateways).unwrap());
            let (begin, burst) = (start(), rate.burst.get() as f64);
            let (mut now, mut full_at, mut spent, mut last) = (begin, None, 0_u64, 0);
            for (pause, cost) in steps {
                now += Duration::from_millis(pause);
                match rate.check(full_at, now) {
                    Ok(()) => (full_at, spent, last) = (Some(rate.charge(full_at, now, cost)), spent + cost, cost),
                    Err(wait) => prop_assert!(rate.check(full_at, now + wait).is_ok()),
                }
                let earned = (now - begin).as_secs_f64() * per_minute as f64 / 60.0 / f64::from(gateways);
                // A charge's time is rounded down to nanoseconds.
                prop_assert!((spent - last) as f64 <= burst + earned + 0.1);
            }
        }
    }
}

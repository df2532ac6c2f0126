//! Requests, bytes and tokens per time of each client.

mod account;
mod eviction;
mod meter;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_access::{ClientLimits, Rate, Unit};

pub(crate) use account::{Account, AccountLimits, limits_of};
pub(crate) use eviction::make_room;
pub(crate) use meter::Meter;

/// Maximum number of buckets with an entry, so that memory is bounded.
const MAX_BUCKETS: usize = 65_536;

/// Buckets of all accounts, each as the time at which it is full again. A full bucket needs no entry. Clones share the
/// buckets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates(Arc<Mutex<HashMap<Bucket, Instant>>>);

/// Bucket of one unit of an account.
type Bucket = (Account, Unit);

/// Buckets of a request's limits of one unit.
type Limited = SmallVec<[(Bucket, Rate); 2]>;

/// A bucket that a request is charged for once its cost is known.
#[derive(Debug)]
struct Debt {
    rates: Rates,
    bucket: Bucket,
    rate: Rate,
}

/// A limit that refuses a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UsedUp {
    pub(crate) unit: Unit,
    /// Time after which the bucket would accept a request.
    pub(crate) after: Duration,
}

impl Rates {
    /// Begins a request: takes one unit from each bucket of requests if all buckets accept the request, and otherwise
    /// nothing. Each rate is divided by `gateways`, the number of gateways that share it. Returns the meter of the
    /// request's bytes and tokens; `None` if these are not limited.
    ///
    /// # Errors
    /// The first bucket that accepts no request.
    pub(crate) fn begin(
        &self,
        limits: &AccountLimits<'_>,
        gateways: NonZeroU32,
        now: Instant,
    ) -> Result<Option<Meter>, UsedUp> {
        let units = [Unit::Requests, Unit::Bytes, Unit::Tokens];
        let [requests, bytes, tokens] = units.map(|unit| limited(limits, unit, gateways));
        if requests.is_empty() && bytes.is_empty() && tokens.is_empty() {
            return Ok(None);
        }
        self.take(&requests, bytes.iter().chain(&tokens), now)?;
        Ok(Meter::of(self.debts(bytes), self.debts(tokens)))
    }

    fn take<'a>(
        &self,
        requests: &'a [(Bucket, Rate)],
        mut debts: impl Iterator<Item = &'a (Bucket, Rate)>,
        now: Instant,
    ) -> Result<(), UsedUp> {
        let mut buckets = self.0.lock();
        debts.try_for_each(|(bucket, rate)| {
            let checked = rate.check(buckets.get(bucket).copied(), now);
            checked.map_err(|after| UsedUp { unit: bucket.1, after })
        })?;
        let mut taken: SmallVec<[Instant; 2]> = SmallVec::new();
        for (bucket, rate) in requests {
            let full_at = rate.take(buckets.get(bucket).copied(), now);
            taken.push(full_at.map_err(|after| UsedUp { unit: bucket.1, after })?);
        }
        for ((bucket, _), full_at) in requests.iter().zip(taken) {
            put(&mut buckets, bucket, full_at, now);
        }
        Ok(())
    }

    fn debts(&self, limited: Limited) -> SmallVec<[Debt; 2]> {
        limited.into_iter().map(|(bucket, rate)| Debt { rates: self.clone(), bucket, rate }).collect()
    }
}

impl Debt {
    /// Charges the bucket for these units. The bucket may become negative.
    fn charge(&self, units: u64, now: Instant) {
        let mut buckets = self.rates.0.lock();
        let full_at = self.rate.charge(buckets.get(&self.bucket).copied(), now, units);
        put(&mut buckets, &self.bucket, full_at, now);
    }
}

/// Returns the buckets of a request's limits of one unit, each with this gateway's part of the rate.
fn limited(limits: &AccountLimits<'_>, unit: Unit, gateways: NonZeroU32) -> Limited {
    let of = |(account, limits): &(Account, &ClientLimits)| {
        let rate = limits.rate(unit)?.divided(gateways);
        Some(((account.clone(), unit), rate))
    };
    limits.iter().filter_map(of).collect()
}

/// Sets the time at which a bucket is full.
fn put(buckets: &mut HashMap<Bucket, Instant>, bucket: &Bucket, full_at: Instant, now: Instant) {
    if buckets.len() >= MAX_BUCKETS && !buckets.contains_key(bucket) {
        make_room(buckets, now);
    }
    buckets.insert(bucket.clone(), full_at);
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;
    use crate::clock::now;

    const ALONE: NonZeroU32 = NonZeroU32::MIN;

    fn limits(per_minute: u32, burst: u32) -> ClientLimits {
        ClientLimits {
            requests_per_minute: NonZeroU32::new(per_minute),
            burst: NonZeroU32::new(burst),
            ..ClientLimits::default()
        }
    }

    fn used_up(unit: Unit, seconds: u64) -> Option<UsedUp> {
        Some(UsedUp { unit, after: Duration::from_secs(seconds) })
    }

    #[test]
    fn a_request_that_one_bucket_refuses_takes_nothing_from_the_other() {
        let (rates, large, small, now) = (Rates::default(), limits(1, 2), limits(1, 1), now());
        let (client, service) = (Account::of("a"), Account::of("a at a service"));
        let both = AccountLimits::from_iter([(client.clone(), &large), (service, &small)]);
        let one = AccountLimits::from_iter([(client, &large)]);
        let refusal = |limits| rates.begin(limits, ALONE, now).err();
        assert_eq!(refusal(&both), None);
        assert_eq!(refusal(&both), used_up(Unit::Requests, 60));
        assert_eq!(refusal(&one), None);
        assert_eq!(refusal(&one), used_up(Unit::Requests, 60));
        assert_eq!(refusal(&AccountLimits::new()), None);
    }

    #[test]
    fn bytes_and_tokens_are_debts_that_refuse_the_next_request_and_take_no_request_from_it() {
        let limits = ClientLimits {
            bytes_per_minute: NonZeroU64::new(6_000_000),
            tokens_per_minute: NonZeroU64::new(600),
            ..limits(60, 2)
        };
        let (rates, now) = (Rates::default(), now());
        let limits = AccountLimits::from_iter([(Account::of("a"), &limits)]);
        let begin = |later| rates.begin(&limits, ALONE, now + Duration::from_secs(later));
        let meter = begin(0).unwrap().unwrap();
        meter.add_tokens(700, now);
        let refused = begin(0).unwrap_err();
        assert_eq!((refused.unit, refused.after.as_secs()), (Unit::Tokens, 60));
        meter.add_bytes(12_000_000, now);
        let refused = begin(61).unwrap_err();
        assert_eq!((refused.unit, refused.after.as_secs()), (Unit::Bytes, 49));
        assert!(begin(111).is_ok() && begin(111).is_ok());
    }

    #[test]
    fn the_last_bytes_are_charged_with_the_end_of_the_request() {
        let limits = ClientLimits { bytes_per_minute: NonZeroU64::new(600), ..ClientLimits::default() };
        let (rates, now) = (Rates::default(), now());
        let limits = AccountLimits::from_iter([(Account::of("a"), &limits)]);
        let meter = rates.begin(&limits, ALONE, now).unwrap().unwrap();
        meter.add_bytes(1000, now);
        assert!(rates.begin(&limits, ALONE, now).is_ok());
        drop(meter.clone());
        assert!(rates.begin(&limits, ALONE, now).is_ok());
        drop(meter);
        assert!(rates.begin(&limits, ALONE, now).is_err());
    }

    #[test]
    fn the_number_of_buckets_is_bounded() {
        let limits = limits(1, 1);
        let (rates, now) = (Rates::default(), now());
        for number in 0..MAX_BUCKETS + 10 {
            let limits = AccountLimits::from_iter([(Account::of(&number.to_string()), &limits)]);
            rates.begin(&limits, ALONE, now).unwrap();
        }
        assert!(rates.0.lock().len() <= MAX_BUCKETS);
    }

    #[test]
    fn names_without_number_do_not_free_a_client_with_a_debt() {
        let limits = ClientLimits { tokens_per_minute: NonZeroU64::new(60), ..limits(60, 1) };
        let (rates, now) = (Rates::default(), now());
        let begin = |name: &str| rates.begin(&AccountLimits::from_iter([(Account::of(name), &limits)]), ALONE, now);
        begin("debtor").unwrap().unwrap().add_tokens(600, now);
        for number in 0..2 * MAX_BUCKETS {
            begin(&number.to_string()).unwrap();
        }
        assert_eq!(begin("debtor").unwrap_err().unit, Unit::Tokens);
        assert!(rates.0.lock().len() <= MAX_BUCKETS);
    }
}

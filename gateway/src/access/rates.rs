//! Requests per time of each client.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use smallvec::SmallVec;
use weir_access::Rate;

use super::account::{Account, AccountLimits};

/// Maximum number of accounts whose buckets are not full. Beyond it, all buckets are filled, so that memory is bounded.
const MAX_ACCOUNTS: usize = 65_536;

/// Buckets of all accounts: the time at which each is full. A bucket that is full is as good as none.
#[derive(Debug, Default)]
pub(super) struct Rates(Mutex<HashMap<Account, Instant>>);

impl Rates {
    /// Takes one request from the bucket of each account whose requests per time are limited, or from none. This gateway
    /// has its part of the rates, of which `gateways` have the others.
    ///
    /// # Errors
    /// The time after which the first empty bucket would accept a request.
    pub(super) fn take(&self, limits: &AccountLimits<'_>, gateways: NonZeroU32, now: Instant) -> Result<(), Duration> {
        let limited: SmallVec<[(&Account, Rate); 2]> =
            limits.iter().filter_map(|(account, limits)| Some((account, limits.rate()?.divided(gateways)))).collect();
        if limited.is_empty() {
            return Ok(());
        }
        let mut buckets = self.0.lock();
        let mut taken: SmallVec<[Instant; 2]> = SmallVec::new();
        for (account, rate) in &limited {
            taken.push(rate.take(buckets.get(*account).copied(), now)?);
        }
        for ((account, _), full_at) in limited.into_iter().zip(taken) {
            put(&mut buckets, account, full_at, now);
        }
        Ok(())
    }
}

/// Sets the time at which a bucket is full. If there are too many buckets, all of them become full.
fn put(buckets: &mut HashMap<Account, Instant>, account: &Account, full_at: Instant, now: Instant) {
    if buckets.len() >= MAX_ACCOUNTS && !buckets.contains_key(account) {
        buckets.retain(|_, full_at| *full_at > now);
        if buckets.len() >= MAX_ACCOUNTS {
            buckets.clear();
        }
    }
    buckets.insert(account.clone(), full_at);
}

#[cfg(test)]
mod tests {
    use weir_access::ClientLimits;

    use super::*;
    use crate::clock::now;

    #[test]
    fn a_request_that_one_bucket_refuses_takes_nothing_from_the_other() {
        let limits = |burst| ClientLimits {
            requests_per_minute: NonZeroU32::new(1),
            burst: NonZeroU32::new(burst),
            ..ClientLimits::default()
        };
        let (rates, large, small, now) = (Rates::default(), limits(2), limits(1), now());
        let alone = NonZeroU32::MIN;
        let (client, service) = (Account::of("a"), Account::of("a at a service"));
        let both = AccountLimits::from_iter([(client.clone(), &large), (service, &small)]);
        let one = AccountLimits::from_iter([(client, &large)]);
        assert_eq!(rates.take(&both, alone, now), Ok(()));
        assert_eq!(rates.take(&both, alone, now), Err(Duration::from_secs(60)));
        assert_eq!(rates.take(&one, alone, now), Ok(()));
        assert_eq!(rates.take(&one, alone, now), Err(Duration::from_secs(60)));
        assert_eq!(rates.take(&AccountLimits::new(), alone, now), Ok(()));
    }
}

//! Requests in flight of the clients whose concurrency is limited.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_access::part_of_count;

use crate::rates::{Account, AccountLimits};

/// Numbers of requests in flight, by account. An account without requests has no entry, so the number of open requests
/// bounds the memory.
#[derive(Clone, Debug, Default)]
pub(super) struct InFlight(Arc<Mutex<HashMap<Account, u32>>>);

/// The counts of one request among the requests in flight. Dropping it subtracts them: at the end of the response or of
/// a WebSocket's connection, or earlier if the client disconnects.
#[derive(Debug)]
pub(crate) struct HeldSlots(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    counts: InFlight,
    account: Account,
}

impl InFlight {
    /// Counts a request for each account with a limit. If one of the accounts has reached its limit, nothing is
    /// counted, and the result is `None`. Each limit is divided by `gateways`, the number of gateways that share it. A
    /// limit that is lowered ends no request.
    pub(super) fn begin(&self, limits: &AccountLimits<'_>, gateways: NonZeroU32) -> Option<HeldSlots> {
        let limited = limits.iter().filter_map(|(account, limits)| Some((account, limits.concurrency?)));
        let limited = limited.map(|(account, limit)| (account, part_of_count(limit, gateways)));
        let slots: Option<_> = limited.map(|(account, limit)| self.count(account, limit)).collect();
        slots.map(HeldSlots)
    }

    fn count(&self, account: &Account, limit: NonZeroU32) -> Option<Slot> {
        let mut counts = self.0.lock();
        let count = counts.get(account).copied().unwrap_or(0);
        if count >= limit.get() {
            return None;
        }
        counts.insert(account.clone(), count + 1);
        Some(Slot { counts: self.clone(), account: account.clone() })
    }

    fn end(&self, account: &Account) {
        let mut counts = self.0.lock();
        match counts.get_mut(account) {
            Some(count) if *count > 1 => *count -= 1,
            Some(_) | None => drop(counts.remove(account)),
        }
    }
}

impl HeldSlots {
    /// Returns true if no limit counts the request.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.counts.end(&self.account);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_access::ClientLimits;

    use super::*;

    fn limits(concurrency: u32) -> ClientLimits {
        ClientLimits { concurrency: NonZeroU32::new(concurrency), ..ClientLimits::default() }
    }

    #[test]
    fn a_request_counts_until_it_ends_and_only_where_it_is_limited() {
        let (in_flight, two, one, any) = (InFlight::default(), limits(2), limits(1), limits(0));
        let (client, service) = (Account::of("a"), Account::of("a at a service"));
        let begin = |limits: &[(&Account, &'_ ClientLimits)]| {
            let limits: AccountLimits<'_> =
                limits.iter().map(|(account, limits)| ((*account).clone(), *limits)).collect();
            in_flight.begin(&limits, NonZeroU32::MIN)
        };
        let first = begin(&[(&client, &two), (&service, &one)]).unwrap();
        // The second account is full, so the first one does not count the request either.
        assert!(begin(&[(&client, &two), (&service, &one)]).is_none());
        let second = begin(&[(&client, &two)]).unwrap();
        assert!(begin(&[(&client, &two)]).is_none());
        // A limit that was lowered ends no request, and accepts none until fewer are in flight.
        drop(first);
        assert!(begin(&[(&client, &one)]).is_none());
        drop(second);
        assert!(begin(&[(&client, &one)]).is_some());
        assert!(begin(&[(&client, &any)]).is_some_and(|slots| slots.is_empty()));
        assert!(in_flight.0.lock().is_empty());
    }

    proptest! {
        #[test]
        fn no_more_are_in_flight_than_the_limit_and_nothing_is_left(
            steps in proptest::collection::vec((any::<bool>(), 0_usize..8), 0..100),
            limit in 1_u32..5,
        ) {
            let (in_flight, limits) = (InFlight::default(), limits(limit));
            let mut open = Vec::new();
            for (begins, number) in steps {
                if begins {
                    let slots = in_flight.begin(&AccountLimits::from_iter([(Account::of("a"), &limits)]), NonZeroU32::MIN);
                    prop_assert_eq!(slots.is_some(), open.len() < limit as usize);
                    open.extend(slots);
                } else if number < open.len() {
                    drop(open.swap_remove(number));
                }
                let count = in_flight.0.lock().get(&Account::of("a")).copied().unwrap_or(0);
                prop_assert_eq!(count as usize, open.len());
            }
            drop(open);
            prop_assert!(in_flight.0.lock().is_empty());
        }
    }
}

//! Shares of a limit: how many of its units, such as bytes or open requests, one client may hold.
//!
//! A client may hold as many units as stay free for all others, times its weight. This is the rule of dynamic
//! thresholds (Choudhury and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", 1998). It
//! depends neither on the number of clients nor on their demand. A client alone may hold half of the units, two may
//! hold a third each, and a new client always finds some free.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;

/// A client as the holder of units of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Number that all requests of the client have in common.
    pub id: u64,
    /// Weight of the client compared with others. At most 16 of it counts, so that a client with any weight leaves a
    /// seventeenth of the units free.
    pub weight: NonZeroU16,
}

/// A limit on units that clients hold, each unit for one connection or request. Clones share the limit.
#[derive(Clone, Debug)]
pub struct SharedLimit(Arc<Units>);

#[derive(Debug)]
struct Units {
    total: usize,
    used: AtomicUsize,
    holdings: Holdings,
}

/// A unit of a [`SharedLimit`] that a client holds; dropping it returns the unit.
#[derive(Debug)]
pub struct HeldUnit {
    limit: SharedLimit,
    client: ClientHolding,
}

/// Units of one limit that each client holds.
#[derive(Debug, Default)]
pub(crate) struct Holdings(Mutex<Clients>);

#[derive(Debug, Default)]
struct Clients {
    units: HashMap<u64, Arc<AtomicUsize>, RandomState>,
    /// Number of clients that were kept by the last search for clients without a [`ClientHolding`].
    kept: usize,
}

/// Units that one client holds. A client may stay remembered after its last `ClientHolding`, so that the next one costs
/// no allocation.
#[derive(Debug)]
pub(crate) struct ClientHolding {
    holder: Holder,
    units: Arc<AtomicUsize>,
}

/// Number of clients up to which none is forgotten.
const FEW_CLIENTS: usize = 64;

/// Largest weight that counts.
const MAX_WEIGHT: usize = 16;

/// Returns true if a client with this weight may hold `held` units while `free` units are free for all others.
pub(crate) const fn is_within_share(held: usize, weight: usize, free: usize) -> bool {
    held <= free.saturating_mul(weight)
}

impl Holder {
    fn weight(self) -> usize {
        usize::from(self.weight.get()).min(MAX_WEIGHT)
    }
}

impl SharedLimit {
    /// Returns a limit of `total` units.
    #[must_use]
    pub fn new(total: usize) -> Self {
        Self(Arc::new(Units { total, used: AtomicUsize::new(0), holdings: Holdings::default() }))
    }

    /// Takes a unit for a client. Returns `None` if the client already holds its share, or no unit is free. A client
    /// without any unit gets the last one.
    #[must_use]
    pub fn take(&self, holder: Holder) -> Option<HeldUnit> {
        let used = self.0.used.fetch_add(1, Ordering::Relaxed) + 1;
        let client = self.0.holdings.of(holder);
        let free = self.0.total.checked_sub(used);
        if free.is_some_and(|free| client.add(1, free.max(1))) {
            return Some(HeldUnit { limit: self.clone(), client });
        }
        self.0.used.fetch_sub(1, Ordering::Relaxed);
        None
    }

    /// Returns the units that all clients hold together.
    #[must_use]
    pub fn in_use(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl HeldUnit {
    /// Returns true if this client holds the unit.
    #[must_use]
    pub fn is_of(&self, holder: Holder) -> bool {
        self.client.holder.id == holder.id
    }
}

impl Drop for HeldUnit {
    fn drop(&mut self) {
        self.client.remove(1);
        self.limit.0.used.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Holdings {
    /// Returns the units of a client.
    pub(crate) fn of(&self, holder: Holder) -> ClientHolding {
        let mut clients = self.0.lock();
        if let Some(units) = clients.units.get(&holder.id) {
            return ClientHolding { holder, units: Arc::clone(units) };
        }
        clients.make_room();
        let units = Arc::clone(clients.units.entry(holder.id).or_default());
        ClientHolding { holder, units }
    }
}

impl Clients {
    /// Forgets the clients that hold nothing, once the clients have doubled since that was done last.
    fn make_room(&mut self) {
        if self.units.len() >= FEW_CLIENTS.max(2 * self.kept) {
            // All other references are those of `ClientHolding`s, which are made only under the lock.
            self.units.retain(|_, units| Arc::strong_count(units) > 1);
            self.kept = self.units.len();
        }
    }
}

impl ClientHolding {
    /// Adds units, after which `free` units are free for all others. Returns false, and adds none, if the client would
    /// then hold more than its share.
    pub(crate) fn add(&self, units: usize, free: usize) -> bool {
        let held = self.units.fetch_add(units, Ordering::Relaxed).saturating_add(units);
        let fits = is_within_share(held, self.holder.weight(), free);
        if !fits {
            self.remove(units);
        }
        fits
    }

    pub(crate) fn remove(&self, units: usize) {
        self.units.fetch_sub(units, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn holder(id: u64, weight: u16) -> Holder {
        Holder { id, weight: NonZeroU16::new(weight).unwrap() }
    }

    fn take_all(limit: &SharedLimit, holder: Holder) -> Vec<HeldUnit> {
        std::iter::from_fn(|| limit.take(holder)).collect()
    }

    #[test]
    fn a_client_alone_gets_half_and_leaves_half_of_the_rest_to_the_next() {
        let limit = SharedLimit::new(1000);
        let first = take_all(&limit, holder(1, 1));
        let second = take_all(&limit, holder(2, 1));
        assert_eq!((first.len(), second.len(), limit.in_use()), (500, 250, 750));
        drop(first);
        assert_eq!(take_all(&limit, holder(3, 1)).len(), 375);
        drop(second);
        assert_eq!(limit.in_use(), 0);
    }

    #[test]
    fn clients_without_units_take_bounded_memory_and_clients_with_units_keep_them() {
        let (limit, remembered) =
            (SharedLimit::new(1 << 20), |limit: &SharedLimit| limit.0.holdings.0.lock().units.len());
        let held: Vec<_> = (0..1000).map(|id| limit.take(holder(id, 1)).unwrap()).collect();
        for id in 1000..100_000 {
            drop(limit.take(holder(id, 1)).unwrap());
            assert!(remembered(&limit) <= 2 * held.len());
        }
        // A unit that is taken now counts together with the first one.
        let next = limit.take(holder(7, 1)).unwrap();
        assert_eq!(next.client.units.load(Ordering::Relaxed), 2);
        drop(held);
        for id in 0..10_000 {
            drop(limit.take(holder(id, 1)).unwrap());
        }
        assert!(remembered(&limit) <= FEW_CLIENTS);
    }

    #[test]
    fn clients_whose_units_come_and_go_get_parts_by_their_weights() {
        let (limit, holders) = (SharedLimit::new(800), [holder(1, 1), holder(2, 2), holder(3, 4)]);
        let mut held = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..100 {
            for (units, holder) in held.iter_mut().zip(holders) {
                units.truncate(units.len() - units.len() / 10);
                units.extend(take_all(&limit, holder));
            }
        }
        // Each weight has about an eighth of the units, and an eighth is free.
        let counts = held.map(|units| units.len());
        for (count, share) in counts.into_iter().zip([100, 200, 400]) {
            assert!(count.abs_diff(share) <= share / 10, "{counts:?}");
        }
    }

    #[test]
    fn any_weight_leaves_some_units_to_others() {
        let limit = SharedLimit::new(17);
        assert_eq!(take_all(&limit, holder(1, u16::MAX)).len(), 16);
        let held = take_all(&limit, holder(1, u16::MAX));
        assert_eq!(take_all(&limit, holder(2, 1)).len(), 1);
        drop(held);
    }

    #[test]
    fn a_limit_of_one_unit_serves_one_client_after_the_other() {
        let limit = SharedLimit::new(1);
        let held = limit.take(holder(1, 1)).unwrap();
        assert!(held.is_of(holder(1, 9)) && !held.is_of(holder(2, 1)));
        assert!(limit.take(holder(2, 1)).is_none());
        drop(held);
        assert!(limit.take(holder(2, 1)).is_some());
    }

    proptest! {
        #[test]
        fn however_units_come_and_go_none_is_lost_and_a_new_client_gets_one(
            steps in proptest::collection::vec((0_u64..8, 1_u16..40, any::<bool>()), 0..2000),
        ) {
            let (limit, mut held) = (SharedLimit::new(256), Vec::new());
            for (id, weight, takes) in steps {
                if takes {
                    held.extend(limit.take(holder(id, weight)));
                } else if !held.is_empty() {
                    held.swap_remove(id as usize % held.len());
                }
                prop_assert_eq!(limit.in_use(), held.len());
            }
            let is_full = held.len() == 256;
            prop_assert!(is_full || limit.take(holder(99, 1)).is_some());
            drop(held);
            prop_assert_eq!(limit.in_use(), 0);
            prop_assert!(limit.0.holdings.0.lock().units.values().all(|units| units.load(Ordering::Relaxed) == 0));
        }
    }
}

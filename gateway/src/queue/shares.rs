//! Shares of a queue: the order in which requests of several clients are served, and their places when the queue is
//! full.
//!
//! Clients are served by start-time fair queueing (Goyal, Vin and Cheng, 1996). Each client has a tag, which grows by
//! the time that replicas spend on its requests, divided by its weight. The waiting client with the smallest tag is
//! served next, and a client that was idle begins at the current virtual time, so that an idle client saves up no
//! service. The cost of a request is known at its end; until then the client's mean stands for it.
//!
//! The order alone would let one client hold all replicas while the others send nothing. So a client above its share
//! leaves free what the others have used recently ([`entitlement`]), and is passed over until it may have more.

mod entitlement;
mod holding;
mod peaks;
mod room;
#[cfg(test)]
mod tests;

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use weir_access::ClientId;
use weir_serve::Holder;

use entitlement::Claim;
pub(crate) use entitlement::Supply;
use holding::{AllHeld, Demand, Holding};
use peaks::WINDOW;
pub(crate) use room::Entrant;

impl ClientShare {
    /// Returns the client as the holder of connections, requests and bytes.
    pub(crate) fn holder(self) -> Holder {
        Holder { id: self.client.number(), weight: self.weight }
    }
}

/// A client with its weight, which is its part of replicas and of a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientShare {
    pub(crate) client: ClientId,
    pub(crate) weight: NonZeroU16,
}

impl ClientShare {
    /// The share of clients without a name.
    pub(crate) const ANONYMOUS: Self = Self { client: ClientId::ANONYMOUS, weight: NonZeroU16::MIN };
}

/// Cost of a request at a replica that was charged in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charge {
    client: ClientId,
    cost_us: u64,
}

impl Charge {
    /// Returns the client that is charged.
    pub(super) fn client(self) -> ClientId {
        self.client
    }
}

/// Virtual time in microseconds of service for a weight of one, times [`SCALE`].
type Tag = u64;

/// Factor that keeps fractions when a time is divided by a weight.
const SCALE: u64 = 1024;

/// Cost of a request before any was measured.
const FIRST_COST_US: u64 = 1000;

/// Longest cost that is charged at once: a day. It keeps tags far from the end of their range.
const MAX_COST_US: u64 = 86_400_000_000;

/// Number of remembered clients above which those without requests are forgotten.
const MAX_CLIENTS: usize = 1024;

/// Number of clients that are checked at once. It is more than the one client that can be added between two checks.
const CHECKED_AT_ONCE: usize = 2;

/// Minimum time for which a client may save the unused part of its credits. Over such a time, the number of requests
/// that a client sends at random times differs from its mean by about as much as the client can save.
const SAVED: Duration = Duration::from_secs(1);
/// Time for which a client may save the unused part of its credits, as a number of its mean requests, if that is longer
/// than [`SAVED`].
const SAVED_REQUESTS: u32 = 8;

/// Waiting clients and their tags.
#[derive(Debug, Default)]
pub(super) struct Shares {
    clients: HashMap<ClientId, Share, BuildHasherDefault<IdHasher>>,
    /// Clients with waiting requests: start tag, first sequence number, client.
    order: BTreeSet<(Tag, u64, ClientId)>,
    /// Start tag of the last request that was served.
    virtual_time: Tag,
    /// Mean cost of all clients in microseconds.
    mean_us: Option<u64>,
    /// All clients, each with the next time at which it is checked, and forgotten if it has no requests.
    checks: VecDeque<(Instant, ClientId)>,
    /// Sum of the weights of all remembered clients.
    weights: u64,
    all: AllHeld,
    /// Credits that are shared; `None` as long as any client may have any credit.
    supply: Option<Supply>,
}

/// Hasher of client identities, which are hashes already.
#[derive(Debug, Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, id: u64) {
        self.0 = id;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// State of one client.
#[derive(Debug)]
struct Share {
    weight: NonZeroU16,
    /// Tag after all service so far.
    finish: Tag,
    /// Virtual time at which the oldest waiting request began to wait.
    floor: Tag,
    /// Bytes of each waiting request by its sequence number.
    waiting: BTreeMap<u64, usize>,
    /// Bytes of all waiting requests.
    bytes: usize,
    in_flight: u32,
    mean_us: u64,
    holding: Holding,
}

impl Share {
    /// Returns the share of a client without requests.
    fn new(weight: NonZeroU16, virtual_time: Tag, mean_us: u64, holding: Holding) -> Self {
        Self {
            weight,
            finish: virtual_time,
            floor: virtual_time,
            waiting: BTreeMap::new(),
            bytes: 0,
            in_flight: 0,
            mean_us,
            holding,
        }
    }

    fn start(&self) -> Tag {
        self.floor.max(self.finish)
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == 0
    }

    fn key(&self, client: ClientId) -> Option<(Tag, u64, ClientId)> {
        self.waiting.first_key_value().map(|(sequence, _)| (self.start(), *sequence, client))
    }

    /// Returns the client's demand; `credits` is the number of credits that a weight of one gives.
    fn demand(&self, credits: f64) -> Demand {
        let saved = SAVED.max(Duration::from_micros(self.mean_us) * SAVED_REQUESTS);
        Demand {
            part: credits * f64::from(self.weight.get()),
            wanted: self.waiting.len() + self.holding.held as usize,
            saved_s: saved.as_secs_f64(),
        }
    }

    fn remove(&mut self, sequence: u64) {
        self.bytes -= self.waiting.remove(&sequence).unwrap_or(0);
    }
}

impl Shares {
    /// Sets the credits that clients share; with `None`, any client may have any credit.
    pub(super) fn set_supply(&mut self, supply: Option<Supply>, now: Instant) {
        self.supply = supply;
        self.forget(now);
    }

    /// Returns true if credits that clients share are free.
    pub(super) fn has_free_credits(&self) -> bool {
        self.supply.is_some_and(|supply| supply.free > 0)
    }

    /// Adds a waiting request.
    pub(super) fn add(&mut self, of: ClientShare, sequence: u64, bytes: usize, now: Instant) {
        let virtual_time = self.virtual_time;
        self.change(of.client, Some(of.weight), now, |share| {
            if share.waiting.is_empty() {
                share.floor = virtual_time;
            }
            share.waiting.insert(sequence, bytes);
            share.bytes += bytes;
        });
    }

    /// Removes a waiting request that is not served.
    pub(super) fn remove(&mut self, of: ClientShare, sequence: u64, now: Instant) {
        self.change(of.client, Some(of.weight), now, |share| share.remove(sequence));
        self.forget(now);
    }

    /// Returns the sequence number of the request that is served next: the first one of a client that may have another
    /// credit.
    pub(super) fn next(&self, now: Instant) -> Option<u64> {
        self.first(now).map(|(_, sequence, _)| sequence)
    }

    fn first(&self, now: Instant) -> Option<(Tag, u64, ClientId)> {
        self.order.iter().find(|(_, _, client)| self.may_start(self.clients.get(client), now)).copied()
    }

    /// Returns true if a request would be served before all waiting ones.
    pub(super) fn precedes(&self, of: ClientShare, sequence: u64, now: Instant) -> bool {
        let share = self.clients.get(&of.client);
        let (start, before) = match share {
            Some(share) if share.waiting.is_empty() => (share.finish.max(self.virtual_time), sequence),
            Some(share) => (share.start(), share.waiting.first_key_value().map_or(sequence, |(first, _)| *first)),
            None => (self.virtual_time, sequence),
        };
        sequence <= before
            && self.may_start(share, now)
            && self.first(now).is_none_or(|first| (start, sequence, of.client) < first)
    }

    /// Returns true if a client may have one of the free credits; `None` is a client that is not remembered. If no
    /// credit is free, the order alone counts.
    fn may_start(&self, share: Option<&Share>, now: Instant) -> bool {
        let supply = self.supply.filter(|supply| supply.free > 0);
        let (Some(supply), Some(share)) = (supply, share) else {
            return true;
        };
        let (demand, holding) = (share.demand(supply.credits(self.weights)), &share.holding);
        // Most clients are within their part, and the rest of the claim costs more than this comparison.
        if entitlement::is_within_part(holding.held, demand.part) {
            return true;
        }
        let claim = Claim {
            held: holding.held,
            part: demand.part,
            balance: holding.balance(demand, now),
            others: self.all.held.saturating_sub(holding.held),
            others_recently: holding.others_recently(&self.all, now),
        };
        claim.is_granted(supply.free)
    }

    /// Charges a request that goes to a replica, and removes it if it has waited.
    pub(super) fn begin(&mut self, of: ClientShare, sequence: u64, now: Instant) -> Charge {
        let virtual_time = self.virtual_time;
        let (mut start, mut cost_us) = (virtual_time, 0);
        self.change(of.client, Some(of.weight), now, |share| {
            start = if share.waiting.is_empty() { share.finish.max(virtual_time) } else { share.start() };
            cost_us = share.mean_us;
            share.remove(sequence);
            share.finish = start.saturating_add(scaled(cost_us, share.weight));
            share.in_flight += 1;
            share.holding.held += 1;
        });
        self.all.take(now);
        self.virtual_time = self.virtual_time.max(start);
        Charge { client: of.client, cost_us }
    }

    /// Records that a stream at its replica lends its credit to other requests.
    pub(super) fn lend(&mut self, charge: Charge, now: Instant) {
        self.change(charge.client, None, now, |share| share.holding.held = share.holding.held.saturating_sub(1));
        self.all.give(now);
    }

    /// Records that a stream takes back the credit that it has lent.
    pub(super) fn take_back(&mut self, charge: Charge, now: Instant) {
        self.change(charge.client, None, now, |share| share.holding.held += 1);
        self.all.take(now);
    }

    /// Corrects the charge of a request that has left its replica. `took` is the time for which it was there; `None` if
    /// that is not known.
    pub(super) fn settle(&mut self, charge: Charge, took: Option<Duration>, now: Instant) {
        let took_us = took.map_or(charge.cost_us, |took| took.as_micros().min(MAX_COST_US.into()) as u64);
        self.change(charge.client, None, now, |share| {
            share.in_flight = share.in_flight.saturating_sub(1);
            share.holding.held = share.holding.held.saturating_sub(1);
            let (charged, cost) = (scaled(charge.cost_us, share.weight), scaled(took_us, share.weight));
            share.finish = share.finish.saturating_add(cost).saturating_sub(charged);
            share.mean_us = mean(share.mean_us, took_us);
        });
        self.all.give(now);
        self.mean_us = Some(self.mean_us.map_or(took_us, |before| mean(before, took_us)));
        self.forget(now);
    }

    /// Returns true if a client other than this one has waiting requests.
    pub(super) fn has_others(&self, client: ClientId) -> bool {
        self.order.iter().take(2).any(|(_, _, other)| *other != client)
    }

    /// Removes all waiting requests.
    pub(super) fn clear(&mut self) {
        self.order.clear();
        for share in self.clients.values_mut() {
            share.waiting.clear();
            share.bytes = 0;
        }
        self.clients.retain(|_, share| share.in_flight > 0);
        self.weights = self.clients.values().map(|share| u64::from(share.weight.get())).sum();
        self.checks.retain(|(_, client)| self.clients.contains_key(client));
    }

    /// Changes a client and its place in the order. A client that is not remembered is added with this weight; `None`
    /// stands for the weight that the client has. A client with requests at a replica is always remembered.
    fn change(&mut self, client: ClientId, weight: Option<NonZeroU16>, now: Instant, change: impl FnOnce(&mut Share)) {
        let credits = self.supply.map(|supply| supply.credits(self.weights));
        let share = match self.clients.entry(client) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => {
                let Some(weight) = weight else { return };
                self.weights += u64::from(weight.get());
                self.checks.push_back((now + WINDOW, client));
                let mean_us = self.mean_us.unwrap_or(FIRST_COST_US);
                place.insert(Share::new(weight, self.virtual_time, mean_us, Holding::new(&self.all, now)))
            }
        };
        if let Some(key) = share.key(client) {
            self.order.remove(&key);
        }
        let demand = credits.map(|credits| share.demand(credits));
        share.holding.pass(&self.all, demand, now);
        if let Some(weight) = weight {
            self.weights = self.weights + u64::from(weight.get()) - u64::from(share.weight.get());
            share.weight = weight;
        }
        change(share);
        self.order.extend(share.key(client));
    }

    /// Forgets clients without requests: those that have done nothing for the window and had no more than their share,
    /// and others if there are too many.
    fn forget(&mut self, now: Instant) {
        for _ in 0..CHECKED_AT_ONCE {
            let are_too_many = self.checks.len() > MAX_CLIENTS;
            let Some((_, client)) = self.checks.pop_front_if(|(due, _)| are_too_many || *due <= now) else {
                return;
            };
            let share = self.clients.get(&client).filter(|share| {
                let is_recent = share.holding.is_recent(now) || share.finish > self.virtual_time;
                !share.is_idle() || is_recent && !are_too_many
            });
            match share {
                Some(_) => self.checks.push_back((now + WINDOW, client)),
                None => self.drop_client(client),
            }
        }
    }

    fn drop_client(&mut self, client: ClientId) {
        if let Some(share) = self.clients.remove(&client) {
            self.weights -= u64::from(share.weight.get());
        }
    }

    /// Returns the number of clients that are remembered.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.clients.len()
    }
}

/// Returns the growth of a tag for a cost. It is at least one, so that a client with free requests is not always first.
fn scaled(cost_us: u64, weight: NonZeroU16) -> Tag {
    (cost_us.saturating_mul(SCALE) / u64::from(weight.get())).max(1)
}

/// Returns the moving mean after one more cost.
fn mean(before: u64, cost: u64) -> u64 {
    (before.saturating_mul(7).saturating_add(cost)) / 8
}

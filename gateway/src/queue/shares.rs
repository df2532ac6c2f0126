//! Shares of a queue: the order in which requests of several clients are served, and their places when the queue is full.
//!
//! Clients are served by start-time fair queueing (Goyal, Vin and Cheng, 1996). Each client has a tag, which grows by the
//! time that replicas spend on its requests, divided by its weight. The waiting client with the smallest tag is served
//! next, and a client that was idle begins at the current virtual time, so that no client saves up. The cost of a request is
//! known at its end; until then the client's mean stands for it. One client that sends ten times its share therefore
//! delays another one by at most the request that is being served.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};
use std::num::NonZeroU16;
use std::sync::LazyLock;
use std::time::Duration;

use weir_serve::Holder;

use super::queue_limit::QueueLimit;

/// Identity of a client in queues: a hash of its name, with a key of this process, so that no client can choose a name
/// with another one's hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClientId(u64);

/// Hash function of this process for names of clients.
static NAMES: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl ClientId {
    /// Identity of all clients without a name together.
    pub(crate) const ANONYMOUS: Self = Self(0);

    /// Returns the identity of a client with this name.
    pub(crate) fn of(name: &str) -> Self {
        Self(NAMES.hash_one(name).max(1))
    }
}

impl ClientShare {
    /// Returns the client as the holder of connections, requests and bytes.
    pub(crate) fn holder(self) -> Holder {
        Holder { id: self.client.0, weight: self.weight }
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

/// Virtual time in microseconds of service for a weight of one, times [`SCALE`].
type Tag = u64;

/// Factor that keeps fractions when a time is divided by a weight.
const SCALE: u64 = 1024;

/// Cost of a request before any was measured.
const FIRST_COST_US: u64 = 1000;

/// Longest cost that is charged at once: a day. It keeps tags far from the end of their range.
const MAX_COST_US: u64 = 86_400_000_000;

/// Maximum number of idle clients that are remembered because they had more than their share.
const MAX_IDLE: usize = 1024;

/// Waiting clients and their tags.
#[derive(Debug, Default)]
pub(super) struct Shares {
    clients: HashMap<ClientId, Share, BuildHasherDefault<IdHasher>>,
    /// Clients with waiting requests: start tag, first sequence number, client.
    order: BTreeSet<(Tag, u64, ClientId)>,
    /// Start tag of the last request that was served.
    now: Tag,
    /// Mean cost of all clients in microseconds.
    mean_us: Option<u64>,
    /// Number of clients that have no request here.
    idle: usize,
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
}

impl Share {
    fn start(&self) -> Tag {
        self.floor.max(self.finish)
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.in_flight == 0
    }

    fn key(&self, client: ClientId) -> Option<(Tag, u64, ClientId)> {
        self.waiting.first_key_value().map(|(sequence, _)| (self.start(), *sequence, client))
    }

    fn remove(&mut self, sequence: u64) {
        self.bytes -= self.waiting.remove(&sequence).unwrap_or(0);
    }
}

impl Shares {
    /// Adds a waiting request.
    pub(super) fn add(&mut self, of: ClientShare, sequence: u64, bytes: usize) {
        let now = self.now;
        self.change(of, |share| {
            if share.waiting.is_empty() {
                share.floor = now;
            }
            share.waiting.insert(sequence, bytes);
            share.bytes += bytes;
        });
    }

    /// Removes a waiting request that is not served.
    pub(super) fn remove(&mut self, of: ClientShare, sequence: u64) {
        self.change(of, |share| share.remove(sequence));
        self.forget(of.client);
    }

    /// Returns the sequence number of the request that is served next.
    pub(super) fn next(&self) -> Option<u64> {
        self.order.first().map(|(_, sequence, _)| *sequence)
    }

    /// Returns true if a request would be served before all waiting ones.
    pub(super) fn precedes(&self, of: ClientShare, sequence: u64) -> bool {
        let Some(first) = self.order.first() else {
            return true;
        };
        let (start, before) = match self.clients.get(&of.client) {
            Some(share) if share.waiting.is_empty() => (share.finish.max(self.now), sequence),
            Some(share) => (share.start(), share.waiting.first_key_value().map_or(sequence, |(first, _)| *first)),
            None => (self.now, sequence),
        };
        sequence <= before && (start, sequence, of.client) < *first
    }

    /// Charges a request that goes to a replica, and removes it if it has waited.
    pub(super) fn begin(&mut self, of: ClientShare, sequence: u64) -> Charge {
        let (mut start, mut cost_us) = (self.now, 0);
        let now = self.now;
        self.change(of, |share| {
            start = if share.waiting.is_empty() { share.finish.max(now) } else { share.start() };
            cost_us = share.mean_us;
            share.remove(sequence);
            share.finish = start.saturating_add(scaled(cost_us, share.weight));
            share.in_flight += 1;
        });
        self.now = self.now.max(start);
        Charge { client: of.client, cost_us }
    }

    /// Corrects the charge of a request that has left its replica. `took` is the time for which it was there; `None` if
    /// that is not known.
    pub(super) fn settle(&mut self, charge: Charge, took: Option<Duration>) {
        let Some(share) = self.clients.get(&charge.client) else {
            return;
        };
        let took_us = took.map_or(charge.cost_us, |took| took.as_micros().min(MAX_COST_US.into()) as u64);
        let of = ClientShare { client: charge.client, weight: share.weight };
        self.change(of, |share| {
            share.in_flight = share.in_flight.saturating_sub(1);
            let (charged, cost) = (scaled(charge.cost_us, share.weight), scaled(took_us, share.weight));
            share.finish = share.finish.saturating_add(cost).saturating_sub(charged);
            share.mean_us = mean(share.mean_us, took_us);
        });
        self.mean_us = Some(self.mean_us.map_or(took_us, |before| mean(before, took_us)));
        self.forget(charge.client);
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
        self.idle = 0;
    }

    /// Makes room in a full queue for a request of a client that has less than its share, and returns the requests that
    /// leave: the newest ones of the client that is furthest above its own. `None` if the request has to be refused.
    pub(super) fn make_room(
        &mut self,
        of: ClientShare,
        bytes: usize,
        content: QueueLimit,
        limit: QueueLimit,
    ) -> Option<Vec<u64>> {
        let has_place = content.requests < limit.requests || self.outranks(of);
        let has_bytes = content.bytes.saturating_add(bytes) <= limit.bytes || self.has_bytes(of, bytes, limit.bytes);
        if !(has_place && has_bytes) {
            return None;
        }
        let (mut left, mut content) = (Vec::new(), content);
        while content.requests >= limit.requests || content.bytes.saturating_add(bytes) > limit.bytes {
            let by = if content.requests >= limit.requests { Share::requests } else { Share::bytes };
            // The conditions above leave a client above its share as long as there is no room.
            let Some((sequence, freed)) = self.displace(of.client, by) else { break };
            left.push(sequence);
            content.bytes -= freed;
            // A limit that has been lowered since may be far exceeded: one place is enough.
            content.requests = limit.requests.saturating_sub(1);
        }
        Some(left)
    }

    /// Returns true if a client with one more request has fewer for its weight than another one.
    fn outranks(&self, of: ClientShare) -> bool {
        let own = self.clients.get(&of.client).map_or(0, |share| share.waiting.len()) + 1;
        let most = self.greediest(of.client, Share::requests);
        most.is_some_and(|(_, share)| is_less(own, of.weight, share.waiting.len(), share.weight))
    }

    /// Returns true if a client with so many more bytes has at most its part of the bytes of a queue.
    fn has_bytes(&self, of: ClientShare, bytes: usize, limit: usize) -> bool {
        let own = self.clients.get(&of.client).map_or(0, |share| share.bytes).saturating_add(bytes);
        let others = self.order.iter().filter(|(_, _, client)| *client != of.client);
        let others: u128 = others.filter_map(|(_, _, client)| self.clients.get(client)).map(Share::weight).sum();
        let weight = u128::from(of.weight.get());
        own as u128 * (others + weight) <= limit as u128 * weight
    }

    /// Removes the newest request of the client with the most for its weight, apart from one client, and returns its
    /// sequence number and bytes.
    fn displace(&mut self, apart: ClientId, by: fn(&Share) -> usize) -> Option<(u64, usize)> {
        let (client, share) = self.greediest(apart, by)?;
        let of = ClientShare { client, weight: share.weight };
        let (sequence, bytes) = share.waiting.last_key_value().map(|(sequence, bytes)| (*sequence, *bytes))?;
        self.remove(of, sequence);
        Some((sequence, bytes))
    }

    /// Returns the waiting client with the most for its weight, apart from one client.
    fn greediest(&self, apart: ClientId, by: fn(&Share) -> usize) -> Option<(ClientId, &Share)> {
        let others = self.order.iter().filter(|(_, _, client)| *client != apart);
        let others = others.filter_map(|(_, _, client)| Some((*client, self.clients.get(client)?)));
        others.reduce(
            |most, other| {
                if is_less(by(most.1), most.1.weight, by(other.1), other.1.weight) { other } else { most }
            },
        )
    }

    /// Changes a client, which is created if necessary, and its place in the order.
    fn change(&mut self, of: ClientShare, change: impl FnOnce(&mut Share)) {
        let (now, mean_us) = (self.now, self.mean_us.unwrap_or(FIRST_COST_US));
        let share = self.clients.entry(of.client).or_insert_with(|| {
            self.idle += 1;
            Share {
                weight: of.weight,
                finish: now,
                floor: now,
                waiting: BTreeMap::new(),
                bytes: 0,
                in_flight: 0,
                mean_us,
            }
        });
        if let Some(key) = share.key(of.client) {
            self.order.remove(&key);
        }
        let was_idle = share.is_idle();
        share.weight = of.weight;
        change(share);
        self.order.extend(share.key(of.client));
        match (was_idle, share.is_idle()) {
            (true, false) => self.idle -= 1,
            (false, true) => self.idle += 1,
            (true, true) | (false, false) => {}
        }
    }

    /// Forgets an idle client that had no more than its share, and any idle client if there are too many.
    fn forget(&mut self, client: ClientId) {
        let now = self.now;
        if self.clients.get(&client).is_some_and(|share| share.is_idle() && share.finish <= now) {
            self.clients.remove(&client);
            self.idle -= 1;
        }
        if self.idle > MAX_IDLE {
            self.clients.retain(|_, share| !share.is_idle());
            self.idle = 0;
        }
    }

    /// Returns the number of clients that are remembered.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.clients.len()
    }
}

impl Share {
    fn requests(&self) -> usize {
        self.waiting.len()
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn weight(&self) -> u128 {
        self.weight.get().into()
    }
}

/// Returns true if `a` is less for its weight than `b`.
fn is_less(a: usize, weight_of_a: NonZeroU16, b: usize, weight_of_b: NonZeroU16) -> bool {
    a as u128 * u128::from(weight_of_b.get()) < b as u128 * u128::from(weight_of_a.get())
}

/// Returns the growth of a tag for a cost. It is at least one, so that a client with free requests is not always first.
fn scaled(cost_us: u64, weight: NonZeroU16) -> Tag {
    (cost_us.saturating_mul(SCALE) / u64::from(weight.get())).max(1)
}

/// Returns the moving mean after one more cost.
fn mean(before: u64, cost: u64) -> u64 {
    (before.saturating_mul(7).saturating_add(cost)) / 8
}

#[cfg(test)]
mod tests;

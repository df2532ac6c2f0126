//! Places in a full queue: the client with the most requests, compared with its weight, makes room for one with fewer.

use std::num::NonZeroU16;
use std::time::Instant;

use super::{ClientId, ClientShare, Share, Shares};
use crate::queue::QueueLimit;

/// A request that enters a full queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entrant {
    pub(crate) share: ClientShare,
    pub(crate) bytes: usize,
    pub(crate) at: Instant,
}

impl Shares {
    /// Makes room in a full queue for a request of a client that uses less than its share. Returns the requests that
    /// leave: the newest requests of the client that is furthest above its share. `None` if the request has to be
    /// refused.
    pub(in crate::queue) fn make_room(
        &mut self,
        entrant: Entrant,
        content: QueueLimit,
        limit: QueueLimit,
    ) -> Option<Vec<u64>> {
        let Entrant { share: of, bytes, at } = entrant;
        let has_place = content.requests < limit.requests || self.outranks(of);
        let has_bytes = content.bytes.saturating_add(bytes) <= limit.bytes || self.has_bytes(of, bytes, limit.bytes);
        if !(has_place && has_bytes) {
            return None;
        }
        let (mut left, mut content) = (Vec::new(), content);
        while content.requests >= limit.requests || content.bytes.saturating_add(bytes) > limit.bytes {
            let by = if content.requests >= limit.requests { Share::requests } else { Share::bytes };
            // The conditions above guarantee that a client is above its share until there is room.
            let Some((sequence, freed)) = self.displace(of.client, by, at) else { break };
            left.push(sequence);
            content.bytes -= freed;
            // The queue may be far above a limit that was lowered meanwhile. Freeing one place is enough.
            content.requests = limit.requests.saturating_sub(1);
        }
        Some(left)
    }

    /// Returns true if this client, with one more request, would have fewer requests for its weight than another client
    /// has.
    fn outranks(&self, of: ClientShare) -> bool {
        let own = self.clients.get(&of.client).map_or(0, Share::requests) + 1;
        let most = self.greediest(of.client, Share::requests);
        most.is_some_and(|(_, share)| is_less(own, of.weight, share.requests(), share.weight))
    }

    /// Returns true if this client, with this many more bytes, would have at most its part of the bytes of a queue.
    fn has_bytes(&self, of: ClientShare, bytes: usize, limit: usize) -> bool {
        let own = self.clients.get(&of.client).map_or(0, |share| share.bytes).saturating_add(bytes);
        let others = self.order.iter().filter(|(_, _, client)| *client != of.client);
        let others: u128 = others.filter_map(|(_, _, client)| self.clients.get(client)).map(Share::weight).sum();
        let weight = u128::from(of.weight.get());
        own as u128 * (others + weight) <= limit as u128 * weight
    }

    /// Removes the newest request of the client that uses most for its weight, where `by` measures the use and the
    /// client `apart` is excluded. Returns the sequence number and the bytes of the request.
    fn displace(&mut self, apart: ClientId, by: fn(&Share) -> usize, now: Instant) -> Option<(u64, usize)> {
        let (client, share) = self.greediest(apart, by)?;
        let of = ClientShare { client, weight: share.weight };
        let (sequence, bytes) = share.waiting.last_key_value().map(|(sequence, bytes)| (*sequence, *bytes))?;
        self.remove(of, sequence, now);
        Some((sequence, bytes))
    }

    /// Returns the waiting client that uses most for its weight, where `by` measures the use and the client `apart` is
    /// excluded.
    fn greediest(&self, apart: ClientId, by: fn(&Share) -> usize) -> Option<(ClientId, &Share)> {
        let others = self.order.iter().filter(|(_, _, client)| *client != apart);
        let others = others.filter_map(|(_, _, client)| Some((*client, self.clients.get(client)?)));
        others.reduce(
            |most, other| {
                if is_less(by(most.1), most.1.weight, by(other.1), other.1.weight) { other } else { most }
            },
        )
    }
}

impl Share {
    /// Returns the client's requests that wait or are at a replica: of two clients that fill the queue, the one that
    /// holds more credits is further above its share.
    fn requests(&self) -> usize {
        self.waiting.len() + self.holding.held as usize
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn weight(&self) -> u128 {
        self.weight.get().into()
    }
}

/// Returns true if `a` is less in proportion to its weight than `b`.
fn is_less(a: usize, weight_of_a: NonZeroU16, b: usize, weight_of_b: NonZeroU16) -> bool {
    a as u128 * u128::from(weight_of_b.get()) < b as u128 * u128::from(weight_of_a.get())
}

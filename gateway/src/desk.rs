//! One revision's requests and the places that its replicas have for them, as a value.
//!
//! ```text
//!   enter ──► a credit at once │ a place in the queue │ refused │ hand over to another gateway
//!   settle, update, report, serve ──► turns: those who wait and now get something
//!   leave ──► a place in the queue becomes free
//! ```
//!
//! A request binds to a replica only when one has a credit for it, so none waits behind a slow one while
//! another is free. First come, first served; who comes back because a replica was lost keeps its place.

mod handover;
mod look;
mod seat;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Instant;

use smallvec::SmallVec;

use crate::shares::{Crowd, Standing};
pub(crate) use handover::HANDOVER;
use handover::{Handover, Regime};
use seat::Seat;
pub(crate) use seat::{Outcome, SeatKey, SeatState, Seating};

/// How much may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Requests.
    pub(crate) requests: usize,
    /// Bytes of their bodies together.
    pub(crate) bytes: usize,
}

/// A request that wants a credit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Its place in the order, if it had one before.
    pub(crate) place: Option<u64>,
    /// Bytes of its body.
    pub(crate) bytes: usize,
    /// After this it needs no answer any more.
    pub(crate) deadline: Option<Instant>,
    /// Whether another gateway handed it over.
    pub(crate) origin: Origin,
}

/// Who brought a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client.
    Client,
    /// Another gateway, which holds this one to be the owner of the queue.
    Gateway,
}

/// What a request gets when it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entered<R> {
    /// A credit.
    Granted(Granted<R>),
    /// A place in the queue.
    Waits(u64),
    /// Another gateway, by its index, has the queue.
    Elsewhere(u32),
    /// Another gateway has the queue, but this request was handed over already.
    NotOwner,
    /// So many wait, with so many bytes, that it may not.
    Full(Room),
}

/// Permission to have one more request at a replica. Must be settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted<R> {
    /// To settle it with.
    pub(crate) key: SeatKey,
    /// The request's place in the order.
    pub(crate) place: u64,
    /// The replica.
    pub(crate) replica: R,
}

/// What one who waited gets.
#[derive(Debug)]
pub(crate) enum Turn<R, W> {
    /// A credit.
    Go(W, Granted<R>),
    /// Another gateway, by its index, has the queue now.
    Elsewhere(W, u32),
    /// The same, but the request was handed over already.
    NotOwner(W),
    /// Nothing: its deadline has passed.
    Late(W),
}

/// Mostly one credit is given back and one taken.
pub(crate) type Turns<R, W> = SmallVec<[Turn<R, W>; 1]>;

/// The queue and the replicas of one revision. `R` is a replica, `W` who waits.
#[derive(Debug)]
pub(crate) struct Desk<R, W> {
    room: Room,
    crowd: Crowd,
    handover: Handover,
    seats: Vec<Seat<R>>,
    waiting: BTreeMap<u64, Waiter<W>>,
    bytes: usize,
    places: u64,
    keys: u64,
    grants: u64,
}

#[derive(Debug)]
struct Waiter<W> {
    who: W,
    bytes: usize,
    deadline: Option<Instant>,
    origin: Origin,
}

impl<R: Clone + PartialEq, W> Desk<R, W> {
    /// Without replicas.
    pub(crate) fn new(room: Room) -> Self {
        Self {
            room,
            crowd: Crowd::ALONE,
            handover: Handover::default(),
            seats: Vec::new(),
            waiting: BTreeMap::new(),
            bytes: 0,
            places: 0,
            keys: 0,
            grants: 0,
        }
    }

    /// Takes a request in. `who` is asked for only if it has to wait.
    pub(crate) fn enter(
        &mut self,
        entry: Entry,
        now: Instant,
        who: impl FnOnce() -> W,
    ) -> Entered<R> {
        match (self.standing(), entry.origin) {
            (Standing::Guest(owner), Origin::Client) => return Entered::Elsewhere(owner),
            (Standing::Guest(_), Origin::Gateway) => return Entered::NotOwner,
            (Standing::Sharer | Standing::Owner, _) => {}
        }
        self.handover.pass(now);
        let is_new = entry.place.is_none();
        let place = entry.place.unwrap_or(self.places);
        let is_first = self.waiting.first_key_value();
        let is_first = is_first.is_none_or(|(first, _)| place < *first);
        if is_first && let Some(granted) = self.grant(place, now) {
            self.places = self.places.max(place + 1);
            return Entered::Granted(granted);
        }
        if is_new && !self.has_room(entry.bytes) {
            return Entered::Full(self.queued());
        }
        self.places = self.places.max(place + 1);
        self.bytes += entry.bytes;
        let waiter = Waiter {
            who: who(),
            bytes: entry.bytes,
            deadline: entry.deadline,
            origin: entry.origin,
        };
        self.waiting.insert(place, waiter);
        Entered::Waits(place)
    }

    /// Gives up a place in the queue. Nothing happens if it is no longer taken.
    pub(crate) fn leave(&mut self, place: u64) {
        if let Some(waiter) = self.waiting.remove(&place) {
            self.bytes -= waiter.bytes;
        }
    }

    /// Sends away all who wait.
    pub(crate) fn dismiss(&mut self) {
        self.bytes = 0;
        self.waiting.clear();
    }

    /// Takes a credit back and says what became of the request.
    pub(crate) fn settle(&mut self, key: SeatKey, outcome: Outcome, now: Instant) -> Turns<R, W> {
        if let Some(seat) = self.seats.iter_mut().find(|seat| seat.key == key) {
            seat.settle(outcome, now);
        }
        self.serve(now)
    }

    /// Notes how many requests at once a replica says it takes.
    pub(crate) fn report(&mut self, key: SeatKey, capacity: u32, now: Instant) -> Turns<R, W> {
        let seat = self.seats.iter_mut().find(|seat| seat.key == key);
        match seat.filter(|seat| seat.credits.limit() != capacity) {
            Some(seat) => seat.credits.report(capacity),
            None => return Turns::new(),
        }
        self.serve(now)
    }

    /// Before this time it may use no credits.
    pub(crate) fn start(&mut self, at: Option<Instant>) {
        self.handover.start(at);
    }

    /// When credits may be used next that were left to other gateways.
    pub(crate) fn next_handover(&self) -> Option<Instant> {
        self.handover.next_end()
    }

    /// Brings the replicas in line with what there is. Returns those that are gone, too: what they had is
    /// lost.
    pub(crate) fn update(
        &mut self,
        room: Room,
        crowd: Crowd,
        replicas: Vec<Seating<R>>,
        now: Instant,
    ) -> (Vec<R>, Turns<R, W>) {
        let before = (self.crowd, self.limits());
        (self.room, self.crowd) = (room, crowd);
        let mut old = std::mem::take(&mut self.seats);
        for seating in replicas {
            let same = old.iter().position(|seat| seat.replica == seating.replica);
            let seat = match same {
                Some(index) => old.swap_remove(index).changed(seating),
                None => {
                    self.keys += 1;
                    Seat::new(self.keys, seating)
                }
            };
            self.seats.push(seat);
        }
        let from = Regime::new(before.0, before.1.or(self.least()).unwrap_or(0));
        self.handover.change(from, self.regime(), now);
        let lost = old.into_iter().map(|seat| seat.replica).collect();
        (lost, self.serve(now))
    }

    /// Gives credits to those who wait, as long as there are any.
    pub(crate) fn serve(&mut self, now: Instant) -> Turns<R, W> {
        self.handover.pass(now);
        let mut turns = Turns::new();
        if self.waiting.is_empty() {
            return turns;
        }
        if let Standing::Guest(owner) = self.standing() {
            self.bytes = 0;
            let all = std::mem::take(&mut self.waiting);
            turns.extend(all.into_values().map(|waiter| match waiter.origin {
                Origin::Client => Turn::Elsewhere(waiter.who, owner),
                Origin::Gateway => Turn::NotOwner(waiter.who),
            }));
            return turns;
        }
        while let Some((place, waiter)) = self.waiting.first_key_value() {
            let place = *place;
            let is_late = waiter.deadline.is_some_and(|deadline| deadline <= now);
            let granted = match is_late {
                true => None,
                false => match self.grant(place, now) {
                    Some(granted) => Some(granted),
                    None => break,
                },
            };
            let Some((_, waiter)) = self.waiting.pop_first() else {
                break;
            };
            self.bytes -= waiter.bytes;
            turns.push(match granted {
                Some(granted) => Turn::Go(waiter.who, granted),
                None => Turn::Late(waiter.who),
            });
        }
        turns
    }

    /// So much may wait from now on; what waits already goes on waiting.
    pub(crate) fn set_room(&mut self, room: Room) {
        self.room = room;
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.waiting.len() < self.room.requests
            && self.bytes.saturating_add(bytes) <= self.room.bytes
    }

    fn regime(&self) -> Regime {
        Regime::new(self.crowd, self.limits().unwrap_or(0))
    }

    fn standing(&self) -> Standing {
        self.regime().standing
    }

    /// What open replicas take at once, all together; none without any.
    fn limits(&self) -> Option<u32> {
        let limits = self.open().map(|seat| seat.credits.limit());
        limits.reduce(u32::saturating_add)
    }

    /// The same when only one of them was open: others may have met it alone.
    fn least(&self) -> Option<u32> {
        self.open().map(|seat| seat.credits.limit()).min()
    }

    fn open(&self) -> impl Iterator<Item = &Seat<R>> {
        let seats = self.seats.iter();
        seats.filter(|seat| seat.state == SeatState::Open)
    }

    fn allowed(&self, seat: &Seat<R>) -> u32 {
        let (limit, turn) = (seat.credits.limit(), seat.turn);
        let allowed = self.regime().allowed(limit, turn);
        allowed.min(self.handover.allowed(limit, turn))
    }

    /// A credit of the replica that has the least to do for its size, the one first that had the last
    /// request longest ago.
    fn grant(&mut self, place: u64, now: Instant) -> Option<Granted<R>> {
        let free = |seat: &Seat<R>| {
            let is_free = seat.is_awake(now) && seat.in_flight < self.allowed(seat);
            is_free.then(|| seat.load())
        };
        let seats = self.seats.iter().enumerate();
        let best = seats.filter_map(|(i, seat)| Some((free(seat)?, seat.granted, i)));
        let (_, _, index) = best.min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))?;
        self.grants += 1;
        let seat = &mut self.seats[index];
        seat.in_flight += 1;
        seat.granted = self.grants;
        Some(Granted {
            key: seat.key,
            place,
            replica: seat.replica.clone(),
        })
    }
}

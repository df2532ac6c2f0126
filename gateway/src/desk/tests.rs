mod sharing;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

type TestDesk = Desk<u32, u64>;

const ROOM: Room = Room {
    requests: 8,
    bytes: 100,
};

#[expect(
    clippy::disallowed_methods,
    reason = "a desk compares times; tests need a first one"
)]
fn start() -> Instant {
    Instant::now()
}

fn seating(replica: u32, concurrency: u32) -> Seating<u32> {
    Seating {
        replica,
        name: format!("r-{replica}").into(),
        state: SeatState::Open,
        concurrency: Some(concurrency),
    }
}

fn entry(bytes: usize) -> Entry {
    Entry {
        place: None,
        bytes,
        deadline: None,
        origin: Origin::Client,
    }
}

fn desk(replicas: Vec<Seating<u32>>, now: Instant) -> TestDesk {
    let mut desk = Desk::new(ROOM);
    desk.update(ROOM, Crowd::ALONE, replicas, now);
    desk
}

fn granted(entered: Entered<u32>) -> Granted<u32> {
    match entered {
        Entered::Granted(granted) => granted,
        other => panic!("{other:?}"),
    }
}

fn gone(turns: Turns<u32, u64>) -> Vec<(u64, u32)> {
    let go = |turn| match turn {
        Turn::Go(who, granted) => (who, granted.replica),
        other => panic!("{other:?}"),
    };
    turns.into_iter().map(go).collect()
}

#[test]
fn requests_go_where_least_is_done_and_wait_in_order() {
    let now = start();
    let mut desk = desk(vec![seating(1, 1), seating(2, 2)], now);
    let mut replicas: Vec<u32> = (0..3)
        .map(|who| granted(desk.enter(entry(1), now, || who)).replica)
        .collect();
    replicas.sort_unstable();
    assert_eq!(replicas, [1, 2, 2]);
    assert_eq!(desk.enter(entry(1), now, || 10), Entered::Waits(3));
    assert_eq!(desk.enter(entry(1), now, || 11), Entered::Waits(4));
    assert_eq!((desk.ahead(4), desk.oldest()), (1, Some(&10)));
    let key = desk.key_of(&2).unwrap();
    let turns = desk.settle(key, Outcome::Answered(Duration::ZERO), now);
    assert_eq!(gone(turns), [(10, 2)]);
}

#[test]
fn at_zero_all_wait_and_go_in_order_once_a_replica_is_there() {
    let now = start();
    let mut desk: TestDesk = Desk::new(ROOM);
    for who in 0..3 {
        assert_eq!(desk.enter(entry(1), now, || who), Entered::Waits(who));
    }
    let (lost, turns) = desk.update(ROOM, Crowd::ALONE, vec![seating(7, 2)], now);
    assert!(lost.is_empty());
    assert_eq!(gone(turns), [(0, 7), (1, 7)]);
}

#[test]
fn a_full_queue_refuses_by_count_and_by_bytes() {
    let now = start();
    let mut desk: TestDesk = Desk::new(ROOM);
    assert_eq!(desk.enter(entry(90), now, || 0), Entered::Waits(0));
    let full = |requests, bytes| Entered::Full(Room { requests, bytes });
    assert_eq!(desk.enter(entry(11), now, || 1), full(1, 90));
    for who in 1..8 {
        assert_eq!(desk.enter(entry(1), now, || who), Entered::Waits(who));
    }
    assert_eq!(desk.enter(entry(1), now, || 8), full(8, 97));
    desk.leave(0);
    assert_eq!(desk.enter(entry(1), now, || 8), Entered::Waits(8));
    assert_eq!(
        desk.queued(),
        Room {
            requests: 8,
            bytes: 8
        }
    );
}

#[test]
fn who_lost_its_replica_comes_before_those_who_came_later() {
    let now = start();
    let mut desk = desk(vec![seating(1, 1)], now);
    let first = granted(desk.enter(entry(1), now, || 0));
    assert_eq!(desk.enter(entry(1), now, || 1), Entered::Waits(1));
    let (lost, _) = desk.update(ROOM, Crowd::ALONE, vec![], now);
    assert_eq!(lost, [1]);
    let again = Entry {
        place: Some(first.place),
        ..entry(1)
    };
    assert_eq!(desk.enter(again, now, || 0), Entered::Waits(0));
    assert!(desk.settle(first.key, Outcome::Failed, now).is_empty());
    let (_, turns) = desk.update(ROOM, Crowd::ALONE, vec![seating(2, 1)], now);
    assert_eq!(gone(turns), [(0, 2)]);
}

#[test]
fn a_replica_that_fails_rests_longer_each_time() {
    let now = start();
    let mut desk = desk(vec![seating(1, 2), seating(2, 1)], now);
    let mut at = now;
    for rest in [50, 100, 200] {
        let keys: Vec<SeatKey> = (0..2)
            .map(|_| granted(desk.enter(entry(1), at, || 0)).key)
            .collect();
        let key = desk.key_of(&1).unwrap();
        assert!(keys.contains(&key));
        for given in keys {
            let outcome = match given == key {
                true => Outcome::Failed,
                false => Outcome::Answered(Duration::ZERO),
            };
            desk.settle(given, outcome, at);
        }
        let rest = Duration::from_millis(rest);
        assert_eq!(desk.next_rested(at), Some(at + rest));
        let other = granted(desk.enter(entry(1), at, || 0));
        assert_eq!(other.replica, 2);
        assert_eq!(
            desk.enter(entry(1), at, || 9),
            Entered::Waits(desk.places - 1)
        );
        at += rest;
        let turns = gone(desk.serve(at));
        assert_eq!(turns, [(9, 1)]);
        desk.settle(key, Outcome::Abandoned, at);
        desk.settle(other.key, Outcome::Answered(Duration::ZERO), at);
    }
}

#[test]
fn a_replica_that_answers_garbage_rests_for_long_at_once() {
    let now = start();
    let mut desk = desk(vec![seating(1, 1), seating(2, 1)], now);
    let first = granted(desk.enter(entry(1), now, || 0));
    desk.settle(first.key, Outcome::Garbled, now);
    assert_eq!(desk.next_rested(now), Some(now + Duration::from_secs(2)));
    let again = Entry {
        place: Some(first.place),
        ..entry(1)
    };
    let second = granted(desk.enter(again, now, || 0));
    assert_ne!(second.replica, first.replica);
}

#[test]
fn dead_work_is_never_sent() {
    let now = start();
    let mut desk: TestDesk = Desk::new(ROOM);
    let hasty = Entry {
        deadline: Some(now + Duration::from_secs(1)),
        ..entry(1)
    };
    desk.enter(hasty, now, || 0);
    desk.enter(entry(1), now, || 1);
    let late = now + Duration::from_secs(2);
    let (_, turns) = desk.update(ROOM, Crowd::ALONE, vec![seating(1, 1)], late);
    assert!(matches!(turns[0], Turn::Late(0)));
    assert!(matches!(turns[1], Turn::Go(1, _)));
}

#[derive(Clone, Debug)]
enum Step {
    Enter(usize, Option<u64>),
    Settle(usize, Outcome),
    Leave(usize),
    Replicas(Vec<(u32, u32)>),
    Report(u32, u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let outcome = prop_oneof![
        4 => Just(Outcome::Answered(Duration::from_millis(3))),
        1 => Just(Outcome::Abandoned),
        1 => Just(Outcome::Refused),
        1 => Just(Outcome::Failed),
        1 => Just(Outcome::Garbled),
    ];
    let step = prop_oneof![
        6 => (0_usize..40, proptest::option::of(0_u64..200)).prop_map(|(b, d)| Step::Enter(b, d)),
        5 => (0_usize..50, outcome).prop_map(|(i, o)| Step::Settle(i, o)),
        1 => (0_usize..50).prop_map(Step::Leave),
        1 => proptest::collection::vec((0_u32..4, 0_u32..4), 0..4).prop_map(Step::Replicas),
        1 => (0_u32..4, 1_u32..6).prop_map(|(r, c)| Step::Report(r, c)),
        2 => (0_u64..100).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..200)
}

/// What a desk must have done, counted beside it.
struct World {
    desk: TestDesk,
    now: Instant,
    next: u64,
    waiting: BTreeSet<u64>,
    held: Vec<Granted<u32>>,
}

impl World {
    fn step(&mut self, step: Step) {
        let now = self.now;
        match step {
            Step::Enter(bytes, deadline) => self.enter(bytes, deadline),
            Step::Settle(index, outcome) => {
                if !self.held.is_empty() {
                    let held = self.held.swap_remove(index % self.held.len());
                    let turns = self.desk.settle(held.key, outcome, now);
                    self.take(turns);
                }
            }
            Step::Leave(index) => {
                if let Some(who) = self.waiting.iter().nth(index).copied() {
                    self.waiting.remove(&who);
                    self.desk.leave(who);
                }
            }
            Step::Replicas(replicas) => {
                let mut seatings: Vec<_> = replicas.iter().map(|(r, c)| seating(*r, *c)).collect();
                seatings.sort_by_key(|seating| seating.replica);
                seatings.dedup_by_key(|seating| seating.replica);
                for seating in &mut seatings {
                    seating.concurrency = seating.concurrency.filter(|number| *number > 0);
                }
                let (_, turns) = self.desk.update(ROOM, Crowd::ALONE, seatings, now);
                self.take(turns);
            }
            Step::Report(replica, capacity) => {
                if let Some(key) = self.desk.key_of(&replica) {
                    let turns = self.desk.report(key, capacity, now);
                    self.take(turns);
                }
            }
            Step::Pass(ms) => {
                self.now += Duration::from_millis(ms);
                let turns = self.desk.serve(self.now);
                self.take(turns);
            }
        }
    }

    /// Who enters is known by the place that it will get.
    fn enter(&mut self, bytes: usize, deadline: Option<u64>) {
        let entry = Entry {
            deadline: deadline.map(|ms| self.now + Duration::from_millis(ms)),
            ..entry(bytes)
        };
        let who = self.next;
        match self.desk.enter(entry, self.now, || who) {
            Entered::Granted(granted) => {
                assert!(self.waiting.is_empty(), "it overtook those who wait");
                self.next = granted.place + 1;
                self.held.push(granted);
            }
            Entered::Waits(place) => {
                assert_eq!(place, who);
                self.waiting.insert(place);
                self.next += 1;
            }
            Entered::Full(room) => {
                assert!(room.requests == ROOM.requests || room.bytes + bytes > ROOM.bytes);
            }
            other => panic!("{other:?} with one gateway"),
        }
    }

    fn take(&mut self, turns: Turns<u32, u64>) {
        for turn in turns {
            match turn {
                Turn::Go(who, granted) => {
                    assert_eq!(
                        self.waiting.pop_first(),
                        Some(who),
                        "not first come, first served"
                    );
                    assert_eq!(who, granted.place);
                    self.held.push(granted);
                }
                Turn::Late(who) => assert!(self.waiting.remove(&who)),
                other => panic!("{other:?} with one gateway"),
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.desk.queued().requests, self.waiting.len());
        assert!(self.waiting.len() <= ROOM.requests && self.desk.bytes <= ROOM.bytes);
        let keys: Vec<SeatKey> = self.desk.seats.iter().map(|seat| seat.key).collect();
        for seat in &self.desk.seats {
            let held = self.held.iter().filter(|held| held.key == seat.key).count();
            assert_eq!(held, seat.in_flight as usize, "credits got lost");
            let is_free = seat.is_awake(self.now) && seat.in_flight < seat.credits.limit();
            assert!(
                !is_free || self.waiting.is_empty(),
                "it waits while a replica is free"
            );
        }
        assert!(keys.iter().collect::<BTreeSet<_>>().len() == keys.len());
    }
}

proptest! {
    #[test]
    fn nothing_is_lost_or_overtaken_and_no_replica_has_too_much(steps in steps()) {
        let mut world = World {
            desk: Desk::new(ROOM),
            now: start(),
            next: 0,
            waiting: BTreeSet::new(),
            held: Vec::new(),
        };
        for step in steps {
            world.step(step);
            world.check();
        }
    }

    #[test]
    fn a_replica_never_has_more_than_the_service_allows(
        limits in proptest::collection::vec(1_u32..4, 1..4),
        requests in 1_usize..20,
    ) {
        let now = start();
        let seatings = limits.iter().enumerate().map(|(i, c)| seating(i as u32, *c)).collect();
        let mut desk = desk(seatings, now);
        for who in 0..requests {
            desk.enter(entry(0), now, || who as u64);
        }
        for (replica, in_flight, allowed) in desk.seats() {
            prop_assert!(in_flight <= allowed);
            prop_assert_eq!(allowed, limits[*replica as usize]);
        }
        let granted: u32 = desk.seats().map(|(_, in_flight, _)| in_flight).sum();
        prop_assert_eq!(granted, limits.iter().sum::<u32>().min(requests as u32));
    }
}

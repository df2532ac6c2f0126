mod aggressor;
mod clients;
mod sharing;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

type TestDispatcher = Dispatcher<u32, u64>;

const LIMIT: QueueLimit = QueueLimit { requests: 8, bytes: 100 };

#[expect(clippy::disallowed_methods, reason = "a dispatcher compares times; tests need a first one")]
fn start() -> Instant {
    Instant::now()
}

fn spec(replica: u32, concurrency: u32) -> EndpointSpec<u32> {
    EndpointSpec {
        replica,
        name: format!("r-{replica}").into(),
        state: EndpointState::Open,
        concurrency: Some(concurrency),
    }
}

fn request(bytes: usize) -> DispatchRequest {
    DispatchRequest {
        sequence: None,
        bytes,
        deadline: None,
        origin: Origin::Client,
        task: Task::Other,
        share: ClientShare::ANONYMOUS,
    }
}

fn dispatcher(replicas: Vec<EndpointSpec<u32>>, now: Instant) -> TestDispatcher {
    let mut dispatcher = Dispatcher::new(LIMIT);
    dispatcher.update(LIMIT, GatewaySet::ALONE, replicas, now);
    dispatcher
}

fn granted(entered: Admission<u32>) -> Granted<u32> {
    match entered {
        Admission::Granted(granted) => granted,
        other => panic!("{other:?}"),
    }
}

fn all_granted(dequeued: DequeuedList<u32, u64>) -> Vec<(u64, Granted<u32>)> {
    let granted = |dequeued| match dequeued {
        Dequeued::Granted(waiter, granted) => (waiter, granted),
        other => panic!("{other:?}"),
    };
    dequeued.into_iter().map(granted).collect()
}

fn gone(dequeued: DequeuedList<u32, u64>) -> Vec<(u64, u32)> {
    all_granted(dequeued).into_iter().map(|(waiter, granted)| (waiter, granted.replica)).collect()
}

fn displaced(dispatcher: &mut TestDispatcher) -> Vec<u64> {
    let waiter = |dequeued| match dequeued {
        Dequeued::Displaced(waiter) => waiter,
        other => panic!("{other:?}"),
    };
    dispatcher.displaced().into_iter().map(waiter).collect()
}

#[test]
fn requests_go_to_the_least_loaded_replica_and_wait_in_order() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 1), spec(2, 2)], now);
    let mut replicas: Vec<u32> =
        (0..3).map(|waiter| granted(dispatcher.enter(request(1), now, || waiter)).replica).collect();
    replicas.sort_unstable();
    assert_eq!(replicas, [1, 2, 2]);
    assert_eq!(dispatcher.enter(request(1), now, || 10), Admission::Queued(3));
    assert_eq!(dispatcher.enter(request(1), now, || 11), Admission::Queued(4));
    assert_eq!((dispatcher.ahead(4), dispatcher.oldest()), (1, Some(&10)));
    let id = dispatcher.id_of(&2).unwrap();
    let dequeued = dispatcher.settle(id, Outcome::Answered(Duration::ZERO), now);
    assert_eq!(gone(dequeued), [(10, 2)]);
}

#[test]
fn requests_at_zero_wait_and_go_to_the_first_replica_in_order() {
    let now = start();
    let mut dispatcher: TestDispatcher = Dispatcher::new(LIMIT);
    for waiter in 0..3 {
        assert_eq!(dispatcher.enter(request(1), now, || waiter), Admission::Queued(waiter));
    }
    let (lost, dequeued) = dispatcher.update(LIMIT, GatewaySet::ALONE, vec![spec(7, 2)], now);
    assert!(lost.is_empty());
    assert_eq!(gone(dequeued), [(0, 7), (1, 7)]);
}

#[test]
fn a_full_queue_refuses_by_count_and_by_bytes() {
    let now = start();
    let mut dispatcher: TestDispatcher = Dispatcher::new(LIMIT);
    assert_eq!(dispatcher.enter(request(90), now, || 0), Admission::Queued(0));
    let full = |requests, bytes| Admission::Full(QueueLimit { requests, bytes });
    assert_eq!(dispatcher.enter(request(11), now, || 1), full(1, 90));
    for waiter in 1..8 {
        assert_eq!(dispatcher.enter(request(1), now, || waiter), Admission::Queued(waiter));
    }
    assert_eq!(dispatcher.enter(request(1), now, || 8), full(8, 97));
    dispatcher.leave(0, now);
    assert_eq!(dispatcher.enter(request(1), now, || 8), Admission::Queued(8));
    assert_eq!(dispatcher.queued(), QueueLimit { requests: 8, bytes: 8 });
}

#[test]
fn a_request_that_lost_its_replica_precedes_later_requests() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 1)], now);
    let first = granted(dispatcher.enter(request(1), now, || 0));
    assert_eq!(dispatcher.enter(request(1), now, || 1), Admission::Queued(1));
    let (lost, _) = dispatcher.update(LIMIT, GatewaySet::ALONE, vec![], now);
    assert_eq!(lost, [1]);
    let again = DispatchRequest { sequence: Some(first.sequence), ..request(1) };
    assert_eq!(dispatcher.enter(again, now, || 0), Admission::Queued(0));
    assert!(dispatcher.settle(first.id, Outcome::Failed, now).is_empty());
    let (_, dequeued) = dispatcher.update(LIMIT, GatewaySet::ALONE, vec![spec(2, 1)], now);
    assert_eq!(gone(dequeued), [(0, 2)]);
}

#[test]
fn each_failure_ejects_a_replica_for_longer() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 2), spec(2, 1)], now);
    let mut at = now;
    for rest in [50, 100, 200] {
        let ids: Vec<EndpointId> = (0..2).map(|_| granted(dispatcher.enter(request(1), at, || 0)).id).collect();
        let id = dispatcher.id_of(&1).unwrap();
        assert!(ids.contains(&id));
        for given in ids {
            let outcome = if given == id { Outcome::Failed } else { Outcome::Answered(Duration::ZERO) };
            dispatcher.settle(given, outcome, at);
        }
        let rest = Duration::from_millis(rest);
        assert_eq!(dispatcher.next_readmission(at), Some(at + rest));
        let other = granted(dispatcher.enter(request(1), at, || 0));
        assert_eq!(other.replica, 2);
        assert_eq!(dispatcher.enter(request(1), at, || 9), Admission::Queued(dispatcher.next_sequence - 1));
        at += rest;
        let dequeued = gone(dispatcher.serve(at));
        assert_eq!(dequeued, [(9, 1)]);
        dispatcher.settle(id, Outcome::Abandoned, at);
        dispatcher.settle(other.id, Outcome::Answered(Duration::ZERO), at);
    }
}

#[test]
fn others_work_until_each_replica_has_failed() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 1), spec(2, 1)], now);
    let [one, two] = [1, 2].map(|replica| dispatcher.id_of(&replica).unwrap());
    assert!(dispatcher.others_work(one));
    let [first, second] = [(); 2].map(|()| granted(dispatcher.enter(request(1), now, || 0)).id);
    dispatcher.settle(first, Outcome::Failed, now);
    assert!(dispatcher.others_work(first) && !dispatcher.others_work(second));
    dispatcher.settle(second, Outcome::Failed, now);
    assert!(!dispatcher.others_work(one) && !dispatcher.others_work(two));
}

#[test]
fn an_invalid_response_ejects_a_replica_for_the_longest_time() {
    let now = start();
    let mut dispatcher = dispatcher(vec![spec(1, 1), spec(2, 1)], now);
    let first = granted(dispatcher.enter(request(1), now, || 0));
    dispatcher.settle(first.id, Outcome::InvalidResponse, now);
    assert_eq!(dispatcher.next_readmission(now), Some(now + Duration::from_secs(2)));
    let again = DispatchRequest { sequence: Some(first.sequence), ..request(1) };
    let second = granted(dispatcher.enter(again, now, || 0));
    assert_ne!(second.replica, first.replica);
}

#[test]
fn an_expired_request_is_never_dispatched() {
    let now = start();
    let mut dispatcher: TestDispatcher = Dispatcher::new(LIMIT);
    let expiring = DispatchRequest { deadline: Some(now + Duration::from_secs(1)), ..request(1) };
    dispatcher.enter(expiring, now, || 0);
    dispatcher.enter(request(1), now, || 1);
    let late = now + Duration::from_secs(2);
    let (_, dequeued) = dispatcher.update(LIMIT, GatewaySet::ALONE, vec![spec(1, 1)], late);
    assert!(matches!(dequeued[0], Dequeued::Expired(0)));
    assert!(matches!(dequeued[1], Dequeued::Granted(1, _)));
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
        1 => Just(Outcome::InvalidResponse),
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

/// A dispatcher, and a model of its expected behaviour.
struct World {
    dispatcher: TestDispatcher,
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
                    let dequeued = self.dispatcher.settle(held.id, outcome, now);
                    self.take(dequeued);
                }
            }
            Step::Leave(index) => {
                if let Some(waiter) = self.waiting.iter().nth(index).copied() {
                    self.waiting.remove(&waiter);
                    self.dispatcher.leave(waiter, now);
                }
            }
            Step::Replicas(replicas) => {
                let mut specs: Vec<_> = replicas.iter().map(|(r, c)| spec(*r, *c)).collect();
                specs.sort_by_key(|spec| spec.replica);
                specs.dedup_by_key(|spec| spec.replica);
                for spec in &mut specs {
                    spec.concurrency = spec.concurrency.filter(|number| *number > 0);
                }
                let (_, dequeued) = self.dispatcher.update(LIMIT, GatewaySet::ALONE, specs, now);
                self.take(dequeued);
            }
            Step::Report(replica, capacity) => {
                if let Some(id) = self.dispatcher.id_of(&replica) {
                    let dequeued = self.dispatcher.report(id, capacity, now);
                    self.take(dequeued);
                }
            }
            Step::Pass(ms) => {
                self.now += Duration::from_millis(ms);
                let dequeued = self.dispatcher.serve(self.now);
                self.take(dequeued);
            }
        }
    }

    /// Enters a request. Each waiter is identified by the sequence number that its request will get.
    fn enter(&mut self, bytes: usize, deadline: Option<u64>) {
        let request =
            DispatchRequest { deadline: deadline.map(|ms| self.now + Duration::from_millis(ms)), ..request(bytes) };
        let waiter = self.next;
        match self.dispatcher.enter(request, self.now, || waiter) {
            Admission::Granted(granted) => {
                assert!(self.waiting.is_empty(), "a request overtook queued requests");
                self.next = granted.sequence + 1;
                self.held.push(granted);
            }
            Admission::Queued(sequence) => {
                assert_eq!(sequence, waiter);
                self.waiting.insert(sequence);
                self.next += 1;
            }
            Admission::Full(limit) => {
                assert!(limit.requests == LIMIT.requests || limit.bytes + bytes > LIMIT.bytes);
            }
            other => panic!("{other:?} with one gateway"),
        }
    }

    fn take(&mut self, dequeued: DequeuedList<u32, u64>) {
        for one in dequeued {
            match one {
                Dequeued::Granted(waiter, granted) => {
                    assert_eq!(self.waiting.pop_first(), Some(waiter), "not first come, first served");
                    assert_eq!(waiter, granted.sequence);
                    self.held.push(granted);
                }
                Dequeued::Expired(waiter) => assert!(self.waiting.remove(&waiter)),
                other => panic!("{other:?} with one gateway"),
            }
        }
    }

    fn check(&self) {
        assert_eq!(self.dispatcher.queued().requests, self.waiting.len());
        assert!(self.waiting.len() <= LIMIT.requests && self.dispatcher.bytes <= LIMIT.bytes);
        let ids: Vec<EndpointId> = self.dispatcher.endpoints.iter().map(|endpoint| endpoint.id).collect();
        for endpoint in &self.dispatcher.endpoints {
            let held = self.held.iter().filter(|held| held.id == endpoint.id).count();
            assert_eq!(held, endpoint.in_flight as usize, "credits got lost");
            let is_free = endpoint.is_available(self.now) && endpoint.in_flight < endpoint.credits.limit();
            assert!(!is_free || self.waiting.is_empty(), "a request waits while a replica is free");
        }
        assert!(ids.iter().collect::<BTreeSet<_>>().len() == ids.len());
    }
}

proptest! {
    #[test]
    fn no_request_is_lost_or_overtaken_and_no_replica_exceeds_its_limit(steps in steps()) {
        let mut world = World {
            dispatcher: Dispatcher::new(LIMIT),
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
        let specs = limits.iter().enumerate().map(|(i, c)| spec(i as u32, *c)).collect();
        let mut dispatcher = dispatcher(specs, now);
        for waiter in 0..requests {
            dispatcher.enter(request(0), now, || waiter as u64);
        }
        for (replica, in_flight, allowed) in dispatcher.endpoints() {
            prop_assert!(in_flight <= allowed);
            prop_assert_eq!(allowed, limits[*replica as usize]);
        }
        let granted: u32 = dispatcher.endpoints().map(|(_, in_flight, _)| in_flight).sum();
        prop_assert_eq!(granted, limits.iter().sum::<u32>().min(requests as u32));
    }
}

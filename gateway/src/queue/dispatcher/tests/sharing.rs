//! Tests of several gateways in front of the same replicas.

use super::*;
use crate::queue::partition::Membership;

#[test]
fn credits_are_those_of_open_replicas_and_add_up_over_gateways() {
    let now = start();
    let closed = EndpointSpec { state: EndpointState::Closed, ..spec(3, 7) };
    let credits = |names: &[&str], limit| {
        let gateways = |me: &str| GatewaySet::new(names.iter().copied(), me, "r");
        let share = |me: &&str| {
            let mut dispatcher = TestDispatcher::new(LIMIT);
            let specs = vec![spec(1, limit), spec(2, limit), closed.clone()];
            dispatcher.update(LIMIT, gateways(me), specs, now);
            dispatcher.credits()
        };
        names.iter().map(share).collect::<Vec<_>>()
    };
    assert_eq!(credits(&["a"], 5), [5 + 5]);
    let shared = credits(&["a", "b"], 5);
    assert_eq!(shared.iter().sum::<u32>(), 10);
    assert!(shared.iter().all(|share| *share >= 4), "{shared:?}");
    // With too few credits to share, one gateway has them all.
    let mut owned = credits(&["a", "b"], 1);
    owned.sort_unstable();
    assert_eq!(owned, [0, 2]);
}

#[test]
fn exactly_one_of_two_gateways_has_the_only_credit() {
    let now = start();
    let names = ["a", "b"];
    let gateways = |me| GatewaySet::new(names.iter().copied(), me, "r");
    let mut dispatchers = names.map(|me| {
        let mut dispatcher = TestDispatcher::new(LIMIT);
        dispatcher.update(LIMIT, gateways(me), vec![spec(1, 1)], now);
        dispatcher
    });
    let entered = dispatchers.each_mut().map(|dispatcher| dispatcher.enter(request(1), now, || 0));
    let is_owner = |entered: &Admission<u32>| matches!(entered, Admission::Granted(_));
    assert_eq!(entered.iter().filter(|e| is_owner(e)).count(), 1);
    let non_owner = entered.iter().position(|entered| !is_owner(entered)).unwrap();
    assert_eq!(entered[non_owner], Admission::HandOver);
    let handed = DispatchRequest { origin: Origin::Gateway, ..request(1) };
    assert_eq!(dispatchers[non_owner].enter(handed, now, || 0), Admission::NotOwner);
}

#[test]
fn a_gateway_that_is_not_among_those_that_are_up_hands_over() {
    let now = start();
    let names = ["a", "b"];
    let mut dispatcher = TestDispatcher::new(LIMIT);
    let gateways = GatewaySet::new(names.iter().copied(), "c", "r");
    dispatcher.update(LIMIT, gateways, vec![spec(1, 9)], now);
    assert_eq!(dispatcher.enter(request(1), now, || 0), Admission::HandOver);
    assert_eq!(dispatcher.credits(), 0);
}

#[test]
fn gained_credits_are_used_later_and_lost_credits_are_given_up_at_once() {
    let now = start();
    let gateways = |names: &[&'static str]| GatewaySet::new(names.iter().copied(), "a", "r");
    let mut dispatcher = TestDispatcher::new(LIMIT);
    let mut credits = |names: &[&'static str], at| {
        let (_, dequeued) = dispatcher.update(LIMIT, gateways(names), vec![spec(1, 8)], at);
        assert!(dequeued.is_empty());
        (dispatcher.credits(), dispatcher.next_handover())
    };
    let later = now + HANDOVER;
    assert_eq!(credits(&["a", "b"], now), (4, Some(later)));
    assert_eq!(credits(&["a", "b"], later), (4, None));
    assert_eq!(credits(&["a", "b", "c", "d"], later), (2, Some(later + HANDOVER)));
    let after = later + HANDOVER;
    assert_eq!(credits(&["a"], after), (2, Some(after + HANDOVER)));
    assert_eq!(credits(&["a"], after + HANDOVER), (8, None));
}

#[test]
fn the_first_replica_is_shared_at_once_where_it_takes_enough() {
    let now = start();
    let gateways = GatewaySet::new(["a", "b"].into_iter(), "a", "r");
    let shared = |limit, replicas: u32| {
        let mut dispatcher = TestDispatcher::new(LIMIT);
        dispatcher.update(LIMIT, gateways, Vec::new(), now);
        let later = now + HANDOVER;
        let specs = (0..replicas).map(|replica| spec(replica, limit)).collect();
        dispatcher.update(LIMIT, gateways, specs, later);
        dispatcher.next_handover()
    };
    assert_eq!(shared(4, 1), None);
    // Another gateway may know only one of the replicas yet. The only credit of that replica has an owner, so it cannot
    // be shared.
    assert_eq!(shared(1, 4), Some(now + HANDOVER + HANDOVER));
}

/// Returns the dispatchers of two gateways in front of one replica whose limit is measured, and the owner's index.
fn two_gateways(now: Instant) -> ([TestDispatcher; 2], usize) {
    let names = ["a", "b"];
    let mut dispatchers = names.map(|me| {
        let mut dispatcher = TestDispatcher::new(LIMIT);
        let replica = EndpointSpec { concurrency: None, ..spec(1, 1) };
        dispatcher.update(LIMIT, GatewaySet::new(names.iter().copied(), me, "r"), vec![replica], now);
        dispatcher
    });
    let owner = dispatchers.iter_mut().position(|dispatcher| dispatcher.serving().is_some()).unwrap();
    (dispatchers, owner)
}

#[test]
fn a_gateway_that_hands_over_shares_the_limit_that_the_owner_has_measured() {
    let now = start();
    let (mut dispatchers, owner) = two_gateways(now);
    let other = &mut dispatchers[1 - owner];
    other.learn(2);
    assert_eq!(other.enter(request(1), now, || 0), Admission::HandOver);
    other.learn(8);
    for _ in 0..4 {
        granted(other.enter(request(1), now, || 0));
    }
    assert!(matches!(other.enter(request(1), now, || 0), Admission::Queued(_)));
}

#[test]
fn gateways_share_an_engine_from_the_first_request_on() {
    let now = start();
    let (mut dispatchers, _) = two_gateways(now);
    for dispatcher in &mut dispatchers {
        for _ in 0..16 {
            granted(dispatcher.enter(DispatchRequest { task: Task::GenerateText, ..request(1) }, now, || 0));
        }
    }
}

#[test]
fn the_owner_of_a_queue_judges_a_replica_by_its_own_requests_alone() {
    let now = start();
    let (mut dispatchers, owner) = two_gateways(now);
    let owner = &mut dispatchers[owner];
    owner.learn(3);
    let ids: Vec<EndpointId> = (0..3).map(|_| granted(owner.enter(request(1), now, || 0)).id).collect();
    owner.settle(ids[2], Outcome::Full, now);
    assert_eq!(owner.limits(), Some(2));
}

/// A gateway that learns of changes with a delay.
struct Peer {
    name: &'static str,
    dispatcher: TestDispatcher,
    membership: Membership,
    starts: Option<Instant>,
    /// Changes that the gateway has yet to learn of: the time in milliseconds, and the index of the state.
    news: Vec<(u64, usize)>,
}

/// One state of the cluster: the gateways and the replicas.
type State = (Vec<&'static str>, Vec<u32>);

const NAMES: [&str; 3] = ["a", "b", "c"];

/// Longest delay of a change, in milliseconds.
const NEWS_MS: u64 = 800;

/// Longest duration of a request, in milliseconds. Together with [`NEWS_MS`] it is shorter than [`HANDOVER`].
const REQUEST_MS: u64 = 1000;

impl Peer {
    fn new(name: &'static str, news: Vec<(u64, usize)>) -> Self {
        Self {
            name,
            dispatcher: Dispatcher::new(QueueLimit { requests: 1000, bytes: 1000 }),
            membership: Membership::Unknown,
            starts: None,
            news,
        }
    }

    fn learn(&mut self, state: &State, limit: u32, now: Instant) -> DequeuedList<u32, u64> {
        let (names, replicas) = state;
        let membership = Membership::of(names.iter().copied(), self.name);
        if membership.joins(self.membership) {
            self.starts = Some(now + HANDOVER);
        }
        self.membership = membership;
        let gateways = GatewaySet::new(names.iter().copied(), self.name, "r");
        let specs = replicas.iter().map(|replica| spec(*replica, limit));
        self.dispatcher.start(self.starts);
        let limit = self.dispatcher.limit;
        self.dispatcher.update(limit, gateways, specs.collect(), now).1
    }
}

/// States in which gateways and replicas come and go. A removed replica does not come back.
fn states() -> impl Strategy<Value = Vec<State>> {
    let names = proptest::sample::subsequence(NAMES.to_vec(), 1..=3);
    proptest::collection::vec((names, 1_usize..5), 1..5).prop_map(|states| {
        let (mut alive, mut next) = (Vec::new(), 0);
        let with = |(names, count): (Vec<&'static str>, usize)| {
            alive.truncate(count);
            while alive.len() < count {
                alive.push(next);
                next += 1;
            }
            (names, alive.clone())
        };
        states.into_iter().map(with).collect()
    })
}

proptest! {
    /// Each gateway learns of each change after its own delay, which is shorter than a hand-over.
    #[test]
    fn no_replica_exceeds_its_limit_while_gateways_and_replicas_change(
        states in states(),
        limit in 1_u32..4,
        gap in 100_u64..3000,
        delays in proptest::collection::vec(0..NEWS_MS, 15),
        takes in proptest::collection::vec(1..REQUEST_MS, 20),
    ) {
        let begin = start();
        let mut delays = delays.into_iter();
        let mut peers = NAMES.map(|name| {
            let mut last = 0;
            let news = (0..states.len()).map(|state| {
                // A watch delivers changes in order.
                last = (state as u64 * gap + delays.next().unwrap()).max(last);
                (last, state)
            });
            Peer::new(name, news.collect())
        });
        let mut under_way: Vec<(usize, Granted<u32>, u64)> = Vec::new();
        let mut takes = takes.into_iter().cycle();
        let end = states.len() as u64 * gap + 5000;
        for ms in (0..end).step_by(50) {
            let now = begin + Duration::from_millis(ms);
            let done: Vec<_> = under_way.extract_if(.., |(_, _, until)| *until <= ms).collect();
            for (index, peer) in peers.iter_mut().enumerate() {
                let mut dequeued = peer.dispatcher.serve(now);
                while peer.news.first().is_some_and(|(at, _)| *at <= ms) {
                    let (_, state) = peer.news.remove(0);
                    dequeued.extend(peer.learn(&states[state], limit, now));
                }
                for (_, granted, _) in done.iter().filter(|(by, _, _)| *by == index) {
                    let outcome = Outcome::Answered(Duration::from_millis(1));
                    dequeued.extend(peer.dispatcher.settle(granted.id, outcome, now));
                }
                let go = |dequeued| match dequeued {
                    Dequeued::Granted(_, granted) => Some(granted),
                    Dequeued::HandOver(_) | Dequeued::NotOwner(_) | Dequeued::Expired(_) | Dequeued::Displaced(_) => None,
                };
                let mut granted: Vec<_> = dequeued.into_iter().filter_map(go).collect();
                for _ in 0..3 {
                    if let Admission::Granted(more) = peer.dispatcher.enter(request(0), now, || 0) {
                        granted.push(more);
                    }
                }
                for granted in granted {
                    under_way.push((index, granted, ms + takes.next().unwrap()));
                }
            }
            for (_, granted, _) in &under_way {
                let replica = granted.replica;
                let there = under_way.iter().filter(|(_, other, _)| other.replica == replica);
                prop_assert!(there.count() <= limit as usize, "replica {replica} at {ms} ms");
            }
        }
        // In the end every gateway that is up uses its share, and together they use all credits.
        let (names, replicas) = states.last().unwrap();
        let credits = peers.iter().filter(|peer| names.contains(&peer.name));
        let credits: u32 = credits.map(|peer| peer.dispatcher.credits()).sum();
        prop_assert_eq!(credits, limit * replicas.len() as u32);
    }
}

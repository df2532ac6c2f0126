use proptest::prelude::*;

use super::*;
use crate::clock::now;
use crate::queue::QueueLimit;

fn share(client: u64, weight: u16) -> ClientShare {
    ClientShare { client: ClientId::of(&client.to_string()), weight: NonZeroU16::new(weight).unwrap() }
}

/// One replica for one request at a time, and its waiting requests with their costs in milliseconds.
struct Replica {
    shares: Shares,
    start: Instant,
    costs: BTreeMap<u64, (ClientShare, u64)>,
    next: u64,
    now_ms: u64,
}

/// A request that was served.
#[derive(Clone, Copy, Debug)]
struct Served {
    of: ClientShare,
    sequence: u64,
    cost_ms: u64,
}

impl Replica {
    fn new() -> Self {
        Self { shares: Shares::default(), start: now(), costs: BTreeMap::new(), next: 0, now_ms: 0 }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(self.now_ms)
    }

    fn enter(&mut self, of: ClientShare, cost_ms: u64) -> u64 {
        let sequence = self.next;
        self.next += 1;
        self.shares.add(of, sequence, 1, self.now());
        self.costs.insert(sequence, (of, cost_ms));
        sequence
    }

    fn serve(&mut self) -> Option<Served> {
        let sequence = self.shares.next(self.now())?;
        let (of, cost_ms) = self.costs.remove(&sequence).unwrap();
        let charge = self.shares.begin(of, sequence, self.now());
        self.now_ms += cost_ms;
        self.shares.settle(charge, Some(Duration::from_millis(cost_ms)), self.now());
        Some(Served { of, sequence, cost_ms })
    }
}

proptest! {
    #[test]
    fn a_client_within_its_share_waits_for_one_request_of_an_aggressor(
        costs in proptest::collection::vec(1_u64..50, 400),
        own in 1_u64..50,
    ) {
        let (aggressor, other) = (share(1, 1), share(2, 1));
        let mut replica = Replica::new();
        for cost in costs {
            replica.enter(aggressor, cost);
        }
        replica.serve();
        let mut next_ms = 0;
        while replica.costs.len() > 20 {
            if replica.now_ms < next_ms {
                replica.serve();
                continue;
            }
            // The aggressor's request that is being served is over: the next one is not the aggressor's.
            let sequence = replica.enter(other, own);
            prop_assert_eq!(replica.serve().unwrap().sequence, sequence);
            // Half of the replica's time, and the longest request.
            next_ms = replica.now_ms + own + 50;
        }
    }

    #[test]
    fn time_is_divided_by_weights_within_one_request_each(
        weights in proptest::collection::vec(1_u16..10, 2..5),
        costs in proptest::collection::vec(1_u64..50, 1..6),
    ) {
        let mut replica = Replica::new();
        let clients: Vec<ClientShare> = weights.iter().zip(1..).map(|(weight, id)| share(id, *weight)).collect();
        for number in 0..200 {
            for (index, of) in clients.iter().enumerate() {
                replica.enter(*of, costs[(index + number) % costs.len()]);
            }
        }
        let mut time = HashMap::new();
        for _ in 0..150 {
            let served = replica.serve().unwrap();
            *time.entry(served.of.client).or_insert(0) += served.cost_ms;
            for (one, other) in clients.iter().zip(&clients[1..]) {
                let of = |share: &ClientShare| {
                    *time.get(&share.client).unwrap_or(&0) as f64 / f64::from(share.weight.get())
                };
                let bound = 50.0 / f64::from(one.weight.get()) + 50.0 / f64::from(other.weight.get());
                // Before the first answers, a cost is an estimate of 1 ms.
                prop_assert!((of(one) - of(other)).abs() <= bound, "{one:?} {other:?} {time:?}");
            }
        }
    }

    #[test]
    fn each_client_is_served_in_order_and_all_are_served(
        entries in proptest::collection::vec((1_u64..5, 1_u16..5, 1_u64..50), 1..100),
    ) {
        let mut replica = Replica::new();
        for (client, weight, cost) in &entries {
            replica.enter(share(*client, *weight), *cost);
        }
        let mut last = HashMap::new();
        for _ in 0..entries.len() {
            let served = replica.serve().unwrap();
            let before = last.insert(served.of.client, served.sequence);
            prop_assert!(before.is_none_or(|before| before < served.sequence));
        }
        prop_assert_eq!(replica.shares.next(replica.now()), None);
    }

    #[test]
    fn one_client_is_served_first_come_first_served(costs in proptest::collection::vec(0_u64..50, 1..50)) {
        let mut replica = Replica::new();
        for cost in &costs {
            replica.enter(share(1, 1), *cost);
        }
        let order: Vec<u64> = std::iter::from_fn(|| replica.serve()).map(|served| served.sequence).collect();
        prop_assert_eq!(order, (0..costs.len() as u64).collect::<Vec<_>>());
    }

    #[test]
    fn nothing_within_a_share_is_refused_or_displaced(
        entries in proptest::collection::vec((1_u64..5, 1_usize..10), 1..200),
        requests in 4_usize..20,
        weights in proptest::collection::vec(1_u16..4, 5),
    ) {
        let limit = QueueLimit { requests, bytes: 5 * requests };
        let (mut shares, at) = (Shares::default(), now());
        let mut waiting: BTreeMap<u64, (u64, usize)> = BTreeMap::new();
        for (sequence, (client, bytes)) in (0..).zip(entries) {
            let of = share(client, weights[client as usize]);
            let content = QueueLimit { requests: waiting.len(), bytes: waiting.values().map(|(_, bytes)| bytes).sum() };
            let of_client = |client| {
                let own = waiting.values().filter(move |(of, _)| *of == client);
                own.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes))
            };
            let active: u64 = (1..5).filter(|id| *id == client || of_client(*id).0 > 0)
                .map(|id| u64::from(weights[id as usize])).sum();
            // The parts are compared without division.
            let is_within = |(count, sum): (usize, usize), client: u64| {
                let weight = u64::from(weights[client as usize]);
                count as u64 * active <= limit.requests as u64 * weight
                    && sum as u64 * active <= limit.bytes as u64 * weight
            };
            let (count, sum) = of_client(client);
            let after = (count + 1, sum + bytes);
            let has_room = content.requests < limit.requests && content.bytes + bytes <= limit.bytes;
            let left = if has_room { Some(Vec::new()) } else { shares.make_room(Entrant { share: of, bytes, at }, content, limit) };
            prop_assert!(left.is_some() || !is_within(after, client), "refused within its share");
            let Some(left) = left else { continue };
            for sequence in left {
                let (of, _) = waiting[&sequence];
                prop_assert!(of != client && !is_within(of_client_of(&waiting, of), of), "displaced within its share");
                waiting.remove(&sequence);
            }
            shares.add(of, sequence, bytes, at);
            waiting.insert(sequence, (client, bytes));
            let all: usize = waiting.values().map(|(_, bytes)| bytes).sum();
            prop_assert!(waiting.len() <= limit.requests && all <= limit.bytes);
        }
    }

    #[test]
    fn clients_that_are_gone_take_bounded_memory(clients in proptest::collection::vec(1_u64..1_000_000, 3000)) {
        let (mut shares, mut at) = (Shares::default(), now());
        for (sequence, client) in clients.into_iter().enumerate() {
            let charge = shares.begin(share(client, 1), sequence as u64, at);
            at += Duration::from_millis(client % 10);
            shares.settle(charge, Some(Duration::from_millis(client % 100)), at);
            prop_assert!(shares.len() <= MAX_CLIENTS + 1);
            prop_assert_eq!(shares.checks.len(), shares.len());
            prop_assert_eq!(shares.weights, shares.len() as u64);
        }
    }
}

/// Returns the number and the bytes of a client's waiting requests.
fn of_client_of(waiting: &BTreeMap<u64, (u64, usize)>, client: u64) -> (usize, usize) {
    let own = waiting.values().filter(|(of, _)| *of == client);
    own.fold((0, 0), |(count, sum), (_, bytes)| (count + 1, sum + bytes))
}

#[test]
fn a_request_that_was_cancelled_costs_the_time_of_its_replica() {
    let mut replica = Replica::new();
    let (cheat, other) = (share(1, 1), share(2, 1));
    for _ in 0..10 {
        replica.enter(cheat, 1000);
        replica.enter(other, 10);
    }
    let order: Vec<ClientId> = (0..12).map(|_| replica.serve().unwrap().of.client).collect();
    assert_eq!(order.iter().filter(|client| **client == cheat.client).count(), 2, "{order:?}");
}

#[test]
fn requests_at_replicas_count_when_the_queue_is_full() {
    let (mut shares, at) = (Shares::default(), now());
    let (aggressor, other, third) = (share(1, 1), share(2, 1), share(3, 1));
    for sequence in 0..6 {
        shares.begin(aggressor, sequence, at);
    }
    (6..8).for_each(|sequence| shares.add(aggressor, sequence, 1, at));
    (8..12).for_each(|sequence| shares.add(other, sequence, 1, at));
    let (content, limit) = (QueueLimit { requests: 6, bytes: 6 }, QueueLimit { requests: 6, bytes: 60 });
    // The aggressor has fewer waiting requests, but more requests in total.
    let entrant = Entrant { share: third, bytes: 1, at };
    assert_eq!(shares.make_room(entrant, content, limit), Some(vec![7]));
    let entrant = Entrant { share: other, ..entrant };
    assert_eq!(shares.make_room(entrant, content, limit), Some(vec![6]));
    assert_eq!(shares.make_room(Entrant { share: aggressor, ..entrant }, content, limit), None);
}

#[test]
fn a_client_owes_nothing_for_the_time_in_which_no_credits_were_shared() {
    let (mut shares, start) = (Shares::default(), now());
    let (a, b) = (share(1, 1), share(2, 1));
    shares.set_supply(None, start);
    let first = shares.begin(a, 0, start);
    let later = start + Duration::from_secs(60);
    shares.settle(first, Some(Duration::from_secs(60)), later);
    shares.begin(a, 1, later);
    shares.begin(b, 2, later);
    shares.set_supply(Some(Supply { total: 8, free: 6 }), later);
    let balance =
        |of: ClientShare| shares.clients[&of.client].holding.balance(shares.clients[&of.client].demand(4.0), later);
    assert_eq!((balance(a), balance(b)), (0.0, 0.0));
}

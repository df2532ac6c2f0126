//! Tests with simulated servers and clients, in simulated time.

mod simulation;

use proptest::prelude::*;

use super::comparison::ELASTICITY;
use super::*;
use simulation::{Lengths, Server, Simulation};

/// Seconds for a request's way to the server, plus those from an answer to its client's next request.
const HOPS: f64 = 0.0004;

const ALL_LENGTHS: [Lengths; 4] =
    [Lengths::Constant(500_000), Lengths::LogNormal(840_000), Lengths::Bimodal(100_000), Lengths::FastGets(2_000_000)];

fn lengths() -> impl Strategy<Value = Lengths> {
    proptest::sample::select(ALL_LENGTHS.to_vec())
}

fn engine() -> MeasuredLimit {
    let mut limit = MeasuredLimit::new();
    limit.expect_engine();
    limit
}

/// A server whose requests beyond `knee` slow all of them down. The answers per second fall as the inverse of the
/// number of requests with a `slowdown` of 2, and as the inverse of its cube with 4.
fn collapsing(knee: usize, slowdown: i32, lengths: Lengths) -> Server {
    Server { knee, slowdown, ..Server::engine(usize::MAX, lengths) }
}

/// Returns the answers per second of `width` workers with this many direct clients.
fn direct(server: Server, width: u32, clients: u32) -> f64 {
    f64::from(clients.min(width)) / (server.lengths.mean() + HOPS)
}

/// Returns the answers per second through a gateway, divided by `direct`.
fn share_of(direct: f64, mut through: Simulation) -> f64 {
    let mean = through.server.lengths.mean();
    through.run(100.0 * mean);
    through.run(30_000.0 / direct) / direct
}

#[test]
fn an_engine_is_as_fast_through_a_gateway_as_directly() {
    for lengths in ALL_LENGTHS {
        for clients in [8, 64, 200, 1000] {
            for limit in [MeasuredLimit::new(), engine()] {
                let server = Server::engine(256, lengths);
                let share = share_of(direct(server, 256, clients), Simulation::new(limit, server, clients, 1));
                assert!(share > 0.95, "{share} with {clients} clients and {lengths:?}");
            }
        }
    }
}

/// Returns the mean share of an engine's throughput that the first clients of a new limit get from their 8th to their 32nd
/// answer.
fn first_share(lengths: Lengths, clients: u32) -> f64 {
    let (mean, server) = (lengths.mean(), Server::engine(256, lengths));
    let share = |seed| {
        let mut through = Simulation::new(engine(), server, clients, seed);
        through.run(8.0 * mean);
        through.run(24.0 * mean) / direct(server, 256, clients)
    };
    (0..5).map(share).sum::<f64>() / 5.0
}

#[test]
fn the_first_clients_of_an_engine_hardly_notice_the_search() {
    for lengths in ALL_LENGTHS {
        for clients in [33, 40, 50, 64, 66, 80, 100, 128, 200, 500, 1000] {
            let share = first_share(lengths, clients);
            assert!(share > 0.94, "{share} with {clients} clients and {lengths:?}");
        }
    }
}

#[test]
fn an_engine_is_fully_used_after_three_answers_of_each_client() {
    let mean = Lengths::LogNormal(840_000).mean();
    let mut through = Simulation::new(engine(), Server::engine(256, Lengths::LogNormal(840_000)), 200, 1);
    through.run(3.0 * mean);
    assert!(through.limit() >= 200, "{}", through.limit());
}

#[test]
fn an_engine_with_answers_of_minutes_gets_more_than_one_request_within_seconds() {
    let server = Server::engine(256, Lengths::Constant(300_000_000));
    let mut through = Simulation::new(MeasuredLimit::new(), server, 200, 1);
    through.run(10.0);
    assert_eq!(through.most, 64);
}

#[test]
fn a_server_with_one_worker_never_has_more_than_two_requests() {
    for lengths in [Lengths::Constant(10_000), Lengths::LogNormal(10_000), Lengths::LogNormal(100_000)] {
        for (clients, seed) in [(8, 1), (64, 2), (200, 3), (1000, 4)] {
            let server = Server { warm_up_us: 300_000, ..Server::engine(1, lengths) };
            let mut through = Simulation::new(MeasuredLimit::new(), server, clients, seed);
            let rate = through.run(2000.0 * lengths.mean());
            assert!(through.most <= 2, "{} with {lengths:?}", through.most);
            assert!(rate * lengths.mean() > 0.9, "{rate} with {lengths:?}");
        }
    }
}

#[test]
fn a_server_with_four_workers_keeps_few_requests_waiting_inside() {
    for lengths in [Lengths::Constant(20_000), Lengths::LogNormal(20_000)] {
        let server = Server::engine(4, lengths);
        let share = share_of(direct(server, 4, 200), Simulation::new(MeasuredLimit::new(), server, 200, 5));
        assert!(share > 0.9, "{share} with {lengths:?}");
    }
}

/// Returns the part of a collapsing server's maximum answers per second that clients get in the long run: after 1000
/// mean answer times at the knee.
fn share_of_collapsing(server: Server, limit: MeasuredLimit, clients: u32, seed: u64) -> f64 {
    let most = direct(server, server.knee as u32, clients);
    let mut through = Simulation::new(limit, server, clients, seed);
    through.run(1000.0 * server.lengths.mean());
    through.run(15_000.0 / most) / most
}

#[test]
fn a_server_that_collapses_beyond_some_requests_stays_near_its_best() {
    for lengths in [Lengths::Constant(200_000), Lengths::LogNormal(200_000), Lengths::FastGets(200_000)] {
        for (slowdown, clients) in [(2, 8), (2, 40), (2, 1000), (4, 64), (4, 200)] {
            for limit in [MeasuredLimit::new(), engine()] {
                let server = collapsing(32, slowdown, lengths);
                let share = |seed| share_of_collapsing(server, limit.clone(), clients, seed);
                let share = (share(6) + share(7)) / 2.0;
                assert!(share > 0.9, "{share} with {clients} clients, slowdown {slowdown} and {lengths:?}");
            }
        }
    }
}

#[test]
fn a_server_that_collapses_recovers_although_few_answers_take_fifty_times_as_long() {
    let lengths = Lengths::Bimodal(40_000);
    for clients in [64, 200] {
        let share = |seed| share_of_collapsing(collapsing(32, 2, lengths), engine(), clients, seed);
        let mean = (0..3).map(share).sum::<f64>() / 3.0;
        assert!(mean > 0.85, "{mean} with {clients} clients");
    }
}

#[test]
fn a_limit_follows_lengths_that_change_at_noon() {
    for (morning, afternoon) in [(840_000, 8_400_000), (840_000, 84_000)] {
        let mut through = Simulation::new(engine(), Server::engine(256, Lengths::LogNormal(morning)), 200, 7);
        through.run(100.0);
        through.server.lengths = Lengths::LogNormal(afternoon);
        let share = share_of(direct(through.server, 256, 200), through);
        assert!(share > 0.95, "{share} after {afternoon} µs");
    }
}

#[test]
fn a_limit_stays_large_when_answers_become_shorter_during_a_search() {
    for clients in [100, 200] {
        let share = |seed: u64| {
            let server = Server::engine(256, Lengths::LogNormal(2_520_000));
            let mut through = Simulation::new(engine(), server, clients, seed);
            through.run(2.52 * (8 + 2 * seed) as f64);
            through.server.lengths = Lengths::LogNormal(840_000);
            through.run(8.0);
            through.run(20.0) / direct(through.server, 256, clients)
        };
        let mean = (0..8).map(share).sum::<f64>() / 8.0;
        assert!(mean > 0.93, "{mean} with {clients} clients");
    }
}

#[test]
fn a_limit_shrinks_when_a_server_can_take_less_at_noon() {
    let lengths = Lengths::LogNormal(200_000);
    for (clients, seed) in [(100, 1), (100, 2), (100, 3), (200, 4), (200, 5), (200, 6)] {
        let mut through = Simulation::new(engine(), collapsing(64, 2, lengths), clients, seed);
        through.run(300.0);
        through.server.knee = 16;
        through.run(1000.0);
        let best = 16.0 / lengths.mean();
        let share = through.run(500.0) / best;
        assert!(share > 0.85, "{share} with {clients} clients and seed {seed}, limit {}", through.limit());
    }
}

#[test]
fn a_neighbour_that_slows_the_server_down_leaves_the_limit_large() {
    let lengths = Lengths::LogNormal(840_000);
    let mut through = Simulation::new(engine(), Server::engine(256, lengths), 1000, 9);
    through.run(60.0);
    for _ in 0..20 {
        through.server.pace = 0.3;
        through.run(17.0);
        through.server.pace = 1.0;
        through.run(23.0);
    }
    let share = share_of(direct(through.server, 256, 1000), through);
    assert!(share > 0.95, "{share}");
}

#[test]
fn clients_that_arrive_later_are_served_within_seconds() {
    let mut through = Simulation::new(MeasuredLimit::new(), Server::engine(256, Lengths::LogNormal(840_000)), 4, 10);
    through.run(120.0);
    through.add_clients(196);
    through.run(10.0);
    assert!(through.limit() >= 200, "{}", through.limit());
}

/// Returns the least and the mean share of what clients get directly, for numbers of clients that follow each other for
/// 15 s, with a pause in seconds after each. The first 4 s of each number do not count.
fn shares_of_bursts(bursts: &[u32], lengths: Lengths, pause: f64) -> (f64, f64) {
    let mut through = Simulation::new(engine(), Server::engine(256, lengths), 0, 12);
    let shares = bursts.iter().map(|clients| {
        through.add_clients(*clients);
        through.run(4.0);
        let share = through.run(11.0) / direct(through.server, 256, *clients);
        through.remove_clients(*clients);
        through.run(pause);
        share
    });
    let (least, sum) = shares.fold((f64::INFINITY, 0.0), |(least, sum), share| (share.min(least), sum + share));
    (least, sum / bursts.len() as f64)
}

#[test]
fn clients_that_come_and_go_leave_the_limit_large() {
    let equal = [[64; 12], [200; 12], [1000; 12]];
    let unequal = [[8, 64, 200, 1000, 64, 8, 40, 80, 160, 320, 50, 256]];
    for lengths in [Lengths::Constant(840_000), Lengths::LogNormal(840_000)] {
        for (pause, bursts) in [(20.0, &equal[..]), (20.0, &unequal[..]), (0.0, &unequal[..])] {
            for bursts in bursts {
                let (least, mean) = shares_of_bursts(bursts, lengths, pause);
                assert!(least > 0.7 && mean > 0.93, "{least}, {mean} with {bursts:?} clients and pauses of {pause} s");
            }
        }
    }
}

#[test]
fn gateways_that_share_an_engine_use_it_fully() {
    for gateways in [2, 3, 8] {
        let server = Server::engine(256, Lengths::LogNormal(840_000));
        let limits = (0..gateways).map(|_| engine()).collect();
        let mut through = Simulation::shared(limits, server, 1000 / gateways, 11);
        through.run(200.0);
        let share = through.run(200.0) * 0.84 / 256.0;
        assert!(share > 0.93, "{share} with {gateways} gateways, limit {}", through.limit());
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 8,
        // A limit is measured from random lengths, so one run in some hundred is worse than any useful bound.
        rng_seed: proptest::test_runner::RngSeed::Fixed(33),
        ..ProptestConfig::default()
    })]

    #[test]
    fn an_engine_is_well_used_for_every_distribution_of_service_times(
        lengths in lengths(),
        width in 64_usize..512,
        clients in 8_u32..600,
        seed: u64,
    ) {
        let mut through = Simulation::new(engine(), Server::engine(width, lengths), clients, seed);
        through.run(60.0 * lengths.mean());
        let most = direct(through.server, width as u32, clients);
        let share = through.run(200.0 * lengths.mean()) / most;
        prop_assert!(share > 0.8, "{share}, limit {}", through.limit());
    }

    #[test]
    fn a_collapsing_server_is_well_used_for_every_number_of_clients(
        lengths in proptest::sample::select(vec![
            Lengths::Constant(200_000), Lengths::LogNormal(200_000), Lengths::FastGets(200_000),
        ]),
        knee in 32_usize..80,
        slowdown in 2_i32..4,
        clients in 8_u32..1000,
        seed: u64,
    ) {
        let share = share_of_collapsing(collapsing(knee, slowdown, lengths), engine(), clients, seed);
        prop_assert!(share > 0.8, "{share}");
    }

    #[test]
    fn a_server_that_refuses_requests_gets_as_many_as_it_takes(lengths in lengths(), capacity in 1_usize..500, seed: u64) {
        let server = Server { capacity, ..Server::engine(1000, lengths) };
        let mut through = Simulation::new(engine(), server, 600, seed);
        through.run(100.0 * lengths.mean());
        through.refused = 0;
        let rate = through.run(100.0 * lengths.mean());
        let most = capacity as f64 / lengths.mean();
        prop_assert!(rate > 0.4 * most, "{rate} of {most}, limit {}", through.limit());
        prop_assert!(f64::from(through.refused) < 0.1 * most * 100.0 * lengths.mean() + 50.0, "{}", through.refused);
    }

    #[test]
    fn the_limit_stays_between_one_and_the_highest_limit(
        events in proptest::collection::vec(
            (0_u64..10_000_000, 1_u32..2000, 1_u32..2000, 1_u32..9, 0_u8..6, 0_u64..10_000_000),
            0..300,
        ),
    ) {
        let (mut limit, mut at) = (MeasuredLimit::new(), start());
        for (us, in_flight, allowed, gateways, event, took) in events {
            at += Duration::from_micros(us);
            let usage = Usage { in_flight, allowed, gateways };
            match event {
                0 => limit.sent(usage, at),
                1 => limit.refused(usage),
                2 => limit.expect_engine(),
                3 => limit.ended(at),
                4 if limit.grows_at().is_some() => limit.grow(at),
                _ => limit.answered(usage, Duration::from_micros(took), at),
            }
            prop_assert!((1..=MAX_LIMIT).contains(&limit.limit()), "{}", limit.limit());
            prop_assert!((1..=MAX_LIMIT).contains(&limit.expected()), "{}", limit.expected());
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "simulated time is counted from any moment")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn a_replica_starts_with_the_limit_of_another_one_unless_that_is_one_worker() {
    assert_eq!(MeasuredLimit::learned(200).limit(), 200);
    assert_eq!(MeasuredLimit::learned(2).limit(), 1);
    assert_eq!(MeasuredLimit::learned(5000).limit(), MAX_LIMIT);
}

#[test]
fn the_refusal_of_the_only_request_says_nothing_about_the_server() {
    let mut limit = MeasuredLimit::learned(8);
    let before = limit.clone();
    limit.refused(Usage { in_flight: 1, allowed: 8, gateways: 1 });
    assert_eq!(limit, before);
    limit.refused(Usage { in_flight: 5, allowed: 8, gateways: 1 });
    assert_eq!(limit.limit(), 4);
}

#[test]
fn every_search_from_one_request_tries_two() {
    for idle_searches in 0..=MAX_DOUBLINGS {
        assert_eq!(Step::first(1, idle_searches).apply(1), 2);
    }
}

#[test]
fn the_autoscaler_expects_an_engine_until_the_server_is_known() {
    assert_eq!(MeasuredLimit::new().expected(), ENGINE_LIMIT);
    let mut limit = Simulation::new(MeasuredLimit::new(), Server::engine(1, Lengths::Constant(10_000)), 8, 1);
    limit.run(10.0);
    assert!(limit.limit() <= 2);
}

#[test]
fn a_gateway_that_takes_answers_from_others_gains_nothing() {
    let least = |gateways, factor| {
        let usage = Usage { in_flight: 1, allowed: 1, gateways };
        usage.least_ratio(factor)
    };
    assert_eq!(least(1, 2.0), 1.0 + ELASTICITY);
    // If one of two gateways doubles its requests, its fraction of the answers rises from a half to two thirds. If it
    // halves them, the fraction falls to a third.
    assert!(least(2, 2.0) > 4.0 / 3.0 && least(2, 2.0) < 2.0);
    assert!(least(2, 0.5) < 2.0 / 3.0 && least(2, 0.5) > 0.5);
}

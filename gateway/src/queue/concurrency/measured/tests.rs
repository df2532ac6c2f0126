//! Tests with a simulated server and simulated clients. Time is simulated too.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use proptest::prelude::*;

use super::*;

/// Distribution of the service times of requests.
#[derive(Clone, Copy, Debug)]
enum Lengths {
    Constant(u64),
    /// Log-normal with a mean of one second, as in chat completions.
    LogNormal,
    /// One request in ten takes fifty times as long as the others.
    Bimodal,
    /// One request in ten is a GET of one millisecond; the others take two seconds.
    FastGets,
}

impl Lengths {
    fn draw(self, random: &mut fastrand::Rng) -> u64 {
        match self {
            Self::Constant(us) => us,
            Self::LogNormal => {
                // The sum of twelve uniform numbers has a standard deviation of one.
                let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                (1e6 * (0.8 * normal - 0.32).exp()) as u64
            }
            Self::Bimodal if random.u8(..10) == 0 => 5_000_000,
            Self::Bimodal => 100_000,
            Self::FastGets if random.u8(..10) == 0 => 1000,
            Self::FastGets => 2_000_000,
        }
    }

    /// Returns the mean in seconds.
    fn mean(self) -> f64 {
        match self {
            Self::Constant(us) => us as f64 / 1e6,
            Self::LogNormal => 1.0,
            Self::Bimodal => 0.59,
            Self::FastGets => 1.8001,
        }
    }
}

fn lengths() -> impl Strategy<Value = Lengths> {
    proptest::sample::select(vec![
        Lengths::Constant(10_000),
        Lengths::Constant(10_000_000),
        Lengths::LogNormal,
        Lengths::Bimodal,
        Lengths::FastGets,
    ])
}

/// A server that works on `width` requests at once and queues the others, and clients that each send the next request
/// once the previous one is answered.
struct Simulation {
    limit: MeasuredLimit,
    width: usize,
    /// Requests that the server has at once before it refuses more.
    capacity: u32,
    lengths: Lengths,
    random: fastrand::Rng,
    start: Instant,
    now_us: u64,
    waiting: u32,
    in_flight: u32,
    inside: VecDeque<u64>,
    running: BinaryHeap<Reverse<u64>>,
    refused: u32,
}

impl Simulation {
    #[expect(clippy::disallowed_methods, reason = "simulated time is counted from any moment")]
    fn new(clients: u32, width: usize, lengths: Lengths, seed: u64) -> Self {
        Self {
            limit: MeasuredLimit::new(),
            width,
            capacity: u32::MAX,
            lengths,
            random: fastrand::Rng::with_seed(seed),
            start: Instant::now(),
            now_us: 0,
            waiting: clients,
            in_flight: 0,
            inside: VecDeque::new(),
            running: BinaryHeap::new(),
            refused: 0,
        }
    }

    fn usage(&self) -> Usage {
        Usage { in_flight: self.in_flight, allowed: self.limit.limit(), gateways: 1 }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_micros(self.now_us)
    }

    fn send(&mut self) {
        while self.waiting > 0 && self.in_flight < self.limit.limit() {
            self.waiting -= 1;
            self.in_flight += 1;
            self.limit.sent(self.usage(), self.now());
            if self.in_flight > self.capacity {
                self.limit.refused(self.usage());
                self.refused += 1;
                self.in_flight -= 1;
                self.waiting += 1;
            } else {
                let length = self.lengths.draw(&mut self.random);
                self.inside.push_back(length);
            }
        }
        while self.running.len() < self.width
            && let Some(length) = self.inside.pop_front()
        {
            self.running.push(Reverse(self.now_us + length));
        }
    }

    /// Runs for this many more answers, and returns the answers per second.
    fn run(&mut self, answers: u32) -> f64 {
        let begun = self.now_us;
        for _ in 0..answers {
            self.send();
            let Reverse(ended) = self.running.pop().unwrap();
            self.now_us = ended;
            self.limit.answered(self.usage(), self.now());
            self.in_flight -= 1;
            self.waiting += 1;
        }
        f64::from(answers) * 1e6 / (self.now_us - begun) as f64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_engine_is_fully_used_for_every_distribution_of_service_times(lengths in lengths(), seed: u64) {
        let mut simulation = Simulation::new(200, 256, lengths, seed);
        simulation.run(20_000);
        let rate = simulation.run(10_000);
        let most = 200.0 / lengths.mean();
        prop_assert!(rate > 0.8 * most, "{rate} of {most}, limit {}", simulation.limit.limit());
    }

    #[test]
    fn a_server_of_one_worker_keeps_most_requests_in_the_gateway(lengths in lengths(), seed: u64) {
        // With service times that differ fifty-fold, some trials succeed by chance.
        prop_assume!(!matches!(lengths, Lengths::Bimodal));
        let mut simulation = Simulation::new(2000, 1, lengths, seed);
        simulation.run(20_000);
        let limit = simulation.limit.limit();
        prop_assert!((INITIAL_LIMIT..=8 * INITIAL_LIMIT).contains(&limit), "{limit}");
    }

    #[test]
    fn a_server_that_refuses_requests_gets_as_many_as_it_takes(lengths in lengths(), capacity in 1_u32..500, seed: u64) {
        let mut simulation = Simulation::new(600, 1000, lengths, seed);
        simulation.capacity = capacity;
        simulation.run(5000);
        simulation.refused = 0;
        let rate = simulation.run(5000);
        let most = f64::from(capacity) / lengths.mean();
        prop_assert!(rate > 0.4 * most, "{rate} of {most}, limit {}", simulation.limit.limit());
        prop_assert!(simulation.refused < 2000, "{}", simulation.refused);
    }

    #[test]
    fn a_single_slow_answer_changes_nothing(slow_s in 1_u64..3600, limit in 0_u32..2000) {
        let mut simulation = Simulation::new(200, 256, Lengths::LogNormal, 1);
        simulation.run(limit);
        let (before, at) = (simulation.limit.clone(), simulation.now());
        let alone = Usage { in_flight: 1, allowed: before.limit(), gateways: 1 };
        let mut settled = MeasuredLimit { stage: Stage::Settled { pause: 0 }, ..before.clone() };
        settled.answered(alone, at + Duration::from_secs(slow_s));
        prop_assert_eq!(settled.limit(), before.limit());
    }

    #[test]
    fn the_limit_stays_between_one_and_the_highest_limit(
        events in proptest::collection::vec((0_u64..10_000_000, 1_u32..2000, 1_u32..2000, 1_u32..9, any::<bool>()), 0..300),
    ) {
        let simulation = Simulation::new(0, 1, Lengths::LogNormal, 1);
        let (mut limit, mut at) = (simulation.limit, simulation.start);
        for (us, in_flight, allowed, gateways, is_refused) in events {
            at += Duration::from_micros(us);
            let usage = Usage { in_flight, allowed, gateways };
            limit.sent(usage, at);
            if is_refused { limit.refused(usage) } else { limit.answered(usage, at) }
            prop_assert!((1..=MAX_LIMIT).contains(&limit.limit()), "{}", limit.limit());
        }
    }
}

#[test]
fn a_batch_of_256_is_full_within_three_answers_of_each_client() {
    let mut simulation = Simulation::new(200, 256, Lengths::LogNormal, 7);
    simulation.run(600);
    assert!(simulation.limit.limit() >= 200, "{:?}", simulation.limit);
}

#[test]
fn a_gateway_that_takes_answers_from_others_gains_nothing() {
    let gain = |gateways| {
        let usage = Usage { in_flight: 1, allowed: 1, gateways };
        usage.least_gain()
    };
    // If one of two gateways doubles its requests, its fraction of the answers rises from a half to two thirds.
    assert!(gain(1) == 1.25 && gain(2) > 4.0 / 3.0 && gain(2) < 2.0);
    assert!(gain(8) > 16.0 / 9.0 && gain(8) < 2.0);
}

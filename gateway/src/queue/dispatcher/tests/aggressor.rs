//! Simulation of clients that use less than their share, beside an aggressor that keeps requests for ten times its
//! share open.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use weir_access::ClientId;

use super::*;

const SECOND_US: u64 = 1_000_000;
/// Time for which clients use the replica before the aggressor comes.
const BEFORE_US: u64 = 6 * SECOND_US;
/// Time of the measurement.
const MEASURED_US: u64 = 10 * SECOND_US;
/// Time after which a refused request is sent again.
const PAUSE_US: u64 = 100_000;
/// Places in the queue.
const QUEUE: QueueLimit = QueueLimit { requests: 40, bytes: usize::MAX };
/// Number of the aggressor among the clients.
const AGGRESSOR: usize = 0;

#[derive(Clone, Copy, Debug)]
enum Event {
    Arrive(usize),
    End { client: usize, granted: Granted<u32>, arrived_us: u64, began_us: u64 },
}

/// Times between two requests of a client, compared with their mean.
#[derive(Clone, Copy, Debug)]
enum Arrivals {
    /// Between half and three halves.
    Regular,
    /// A Poisson process, as of independent users.
    Random,
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    credits: u32,
    /// Clients within their share, besides the aggressor.
    others: usize,
    arrivals: Arrivals,
    /// Part of its share that each of them uses.
    used: f64,
    own_ms: u64,
    /// Time that a request of the aggressor takes; `None` without an aggressor.
    aggressor_ms: Option<u64>,
    seed: u64,
}

struct Simulation {
    setting: Setting,
    dispatcher: TestDispatcher,
    start: Instant,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    random: fastrand::Rng,
    /// Client and arrival of each waiting request.
    waiting: BTreeMap<u64, (usize, u64)>,
    /// Times from arrival to answer of the others.
    took_us: Vec<u64>,
    refused: usize,
    /// Answers to the aggressor during the measurement.
    answered: u64,
}

impl Simulation {
    fn run(setting: Setting) -> Self {
        let start = start();
        let mut dispatcher = Dispatcher::new(QUEUE);
        dispatcher.update(QUEUE, GatewaySet::ALONE, vec![spec(1, setting.credits)], start);
        let mut this = Self {
            setting,
            dispatcher,
            start,
            events: BTreeMap::new(),
            number: 0,
            random: fastrand::Rng::with_seed(setting.seed),
            waiting: BTreeMap::new(),
            took_us: Vec::new(),
            refused: 0,
            answered: 0,
        };
        (1..=setting.others).for_each(|client| this.plan_arrival(client, 0));
        let open = setting.aggressor_ms.map_or(0, |_| (10.0 * this.share()) as usize);
        (0..open).for_each(|_| this.plan(BEFORE_US, Event::Arrive(AGGRESSOR)));
        while let Some(((at_us, _), event)) = this.events.pop_first() {
            if at_us > BEFORE_US + MEASURED_US {
                break;
            }
            this.step(at_us, event);
        }
        this.took_us.sort_unstable();
        this
    }

    fn step(&mut self, at_us: u64, event: Event) {
        let now = self.start + Duration::from_micros(at_us);
        match event {
            Event::Arrive(client) => self.arrive(client, at_us, now),
            Event::End { client, granted, arrived_us, began_us } => {
                self.count_answer(client, at_us - arrived_us, at_us);
                self.end(granted, Duration::from_micros(at_us - began_us), at_us, now);
                if client == AGGRESSOR {
                    self.plan(at_us, Event::Arrive(client));
                }
            }
        }
    }

    fn end(&mut self, granted: Granted<u32>, took: Duration, at_us: u64, now: Instant) {
        self.dispatcher.charge(granted.charge, Some(took), now);
        for (waiter, granted) in all_granted(self.dispatcher.settle(granted.id, Outcome::Answered(took), now)) {
            let (client, arrived_us) = self.waiting.remove(&waiter).unwrap();
            self.begin(client, granted, arrived_us, at_us);
        }
    }

    fn arrive(&mut self, client: usize, at_us: u64, now: Instant) {
        if client != AGGRESSOR {
            self.plan_arrival(client, at_us);
        }
        let share = ClientShare { client: ClientId::of(&client.to_string()), weight: NonZeroU16::MIN };
        let waiter = self.dispatcher.next_sequence;
        match self.dispatcher.enter(DispatchRequest { share, ..request(1) }, now, || waiter) {
            Admission::Granted(granted) => self.begin(client, granted, at_us, at_us),
            Admission::Queued(sequence) => drop(self.waiting.insert(sequence, (client, at_us))),
            Admission::Full(_) | Admission::OverShare(_) => self.refuse(client, at_us),
            other => panic!("{other:?}"),
        }
        for waiter in displaced(&mut self.dispatcher) {
            let (client, _) = self.waiting.remove(&waiter).unwrap();
            self.refuse(client, at_us);
        }
    }

    fn begin(&mut self, client: usize, granted: Granted<u32>, arrived_us: u64, at_us: u64) {
        let aggressor_ms = self.setting.aggressor_ms.filter(|_| client == AGGRESSOR);
        let ms = aggressor_ms.unwrap_or(self.setting.own_ms);
        self.plan(at_us + 1000 * ms, Event::End { client, granted, arrived_us, began_us: at_us });
    }

    fn refuse(&mut self, client: usize, at_us: u64) {
        if client == AGGRESSOR {
            self.plan(at_us + PAUSE_US, Event::Arrive(client));
        } else {
            self.refused += 1;
        }
    }

    fn count_answer(&mut self, client: usize, took_us: u64, at_us: u64) {
        match client {
            AGGRESSOR => self.answered += 1,
            _ if at_us > BEFORE_US => self.took_us.push(took_us),
            _ => {}
        }
    }

    fn plan_arrival(&mut self, client: usize, at_us: u64) {
        let setting = self.setting;
        let mean_us = 1000.0 * setting.own_ms as f64 / (setting.used * self.share());
        let random = self.random.f64();
        let factor = match setting.arrivals {
            Arrivals::Regular => 0.5 + random,
            Arrivals::Random => -(1.0 - random).ln(),
        };
        self.plan(at_us + (mean_us * factor) as u64, Event::Arrive(client));
    }

    /// Returns each client's part of the credits.
    fn share(&self) -> f64 {
        f64::from(self.setting.credits) / (self.setting.others + 1) as f64
    }

    fn plan(&mut self, at_us: u64, event: Event) {
        self.number += 1;
        self.events.insert((at_us, self.number), event);
    }

    fn p99_ms(&self) -> f64 {
        self.took_us[self.took_us.len() * 99 / 100] as f64 / 1000.0
    }

    /// Returns the mean number of credits that the aggressor held.
    fn aggressor_credits(&self) -> f64 {
        let ms = self.setting.aggressor_ms.unwrap_or(0);
        (self.answered * ms * 1000) as f64 / MEASURED_US as f64
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn clients_within_their_share_hardly_wait_for_an_aggressor(
        (others, each) in (1_usize..8, 4_u32..12),
        (own_ms, aggressor_ms) in (20_u64..300, 20_u64..2000),
        seed: u64,
    ) {
        let credits = each * (others as u32 + 1);
        let aggressor_ms = Some(aggressor_ms);
        let setting = Setting { credits, others, arrivals: Arrivals::Regular, used: 0.6, own_ms, aggressor_ms, seed };
        let run = Simulation::run(setting);
        prop_assert_eq!(run.refused, 0);
        prop_assert!(run.p99_ms() <= 1.2 * own_ms as f64, "{} ms for {own_ms} ms", run.p99_ms());
        prop_assert!(run.aggressor_credits() >= 0.75 * run.share(), "{} of {credits}", run.aggressor_credits());
    }

    #[test]
    fn an_aggressor_alone_uses_every_credit(credits in 1_u32..24, aggressor_ms in 100_u64..1000, seed: u64) {
        let aggressor_ms = Some(aggressor_ms);
        let setting = Setting { credits, others: 0, arrivals: Arrivals::Regular, used: 0.6, own_ms: 1, aggressor_ms, seed };
        let used = Simulation::run(setting).aggressor_credits();
        prop_assert!(used >= 0.85 * f64::from(credits), "{used} of {credits}");
    }
}

#[test]
fn clients_whose_requests_come_at_random_hardly_wait_either() {
    for (seed, aggressor_ms) in [(3, None), (5, Some(100)), (7, Some(1000))] {
        let arrivals = Arrivals::Random;
        let setting = Setting { credits: 32, others: 3, arrivals, used: 0.6, own_ms: 100, aggressor_ms, seed };
        let run = Simulation::run(setting);
        assert_eq!(run.refused, 0);
        assert!(run.p99_ms() <= 120.0, "{} ms beside {aggressor_ms:?}", run.p99_ms());
    }
}

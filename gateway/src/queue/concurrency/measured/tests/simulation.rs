//! Simulated servers and clients, in simulated time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use super::super::{MeasuredLimit, Usage};

/// Time from the dispatch of a request until the server has it, in µs.
const HOP_US: u64 = 200;

/// Distribution of the service times of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Lengths {
    /// All take this many microseconds.
    Constant(u64),
    /// Log-normal with this mean in µs. One request in a thousand takes a hundred times as long as the shortest ones.
    LogNormal(u64),
    /// One request in ten takes fifty times as long as the others, which take this many microseconds.
    Bimodal(u64),
    /// One request in ten is a GET of one millisecond; the others take this many microseconds.
    FastGets(u64),
}

impl Lengths {
    fn draw(self, random: &mut fastrand::Rng) -> f64 {
        match self {
            Self::LogNormal(mean) => {
                // The sum of twelve uniform numbers has a standard deviation of one.
                let normal = (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
                mean as f64 * (normal - 0.5).exp()
            }
            Self::Bimodal(us) if random.u8(..10) == 0 => 50.0 * us as f64,
            Self::FastGets(_) if random.u8(..10) == 0 => 1000.0,
            Self::Constant(us) | Self::Bimodal(us) | Self::FastGets(us) => us as f64,
        }
    }

    /// Returns the mean in seconds.
    pub(super) fn mean(self) -> f64 {
        match self {
            Self::Constant(us) | Self::LogNormal(us) => us as f64 / 1e6,
            Self::Bimodal(us) => 5.9 * us as f64 / 1e6,
            Self::FastGets(us) => (0.9 * us as f64 + 100.0) / 1e6,
        }
    }
}

/// Server of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Server {
    pub(super) lengths: Lengths,
    /// Requests that the server works on at once. It queues the others in their order.
    pub(super) width: usize,
    /// Requests up to which the server is not slowed down by having more of them.
    pub(super) knee: usize,
    /// Power of the slowdown of each request beyond the knee: with 1, the total rate stays; with 2 or more, it
    /// collapses.
    pub(super) slowdown: i32,
    /// Requests that the server has at once before it refuses more.
    pub(super) capacity: usize,
    /// Time that the first request takes in addition, in µs.
    pub(super) warm_up_us: u64,
    /// Fraction of its speed that the server has, for example because of a neighbour.
    pub(super) pace: f64,
}

impl Server {
    /// An engine that works on `width` requests at once.
    pub(super) fn engine(width: usize, lengths: Lengths) -> Self {
        Self { lengths, width, knee: usize::MAX, slowdown: 1, capacity: usize::MAX, warm_up_us: 0, pace: 1.0 }
    }

    /// Returns the speed of each running request with `count` requests in the server.
    fn speed(self, count: usize) -> f64 {
        let overload = (count as f64 / self.knee as f64).max(1.0);
        self.pace / overload.powi(self.slowdown)
    }
}

/// A gateway with its clients, which each send the next request once the previous one is answered.
struct Gateway {
    limit: MeasuredLimit,
    waiting: u32,
    in_flight: u32,
}

/// A request: the index of its gateway, and the time of its dispatch in µs.
#[derive(Clone, Copy)]
struct Request {
    gateway: usize,
    sent: f64,
}

/// Gateways with one replica.
pub(super) struct Simulation {
    gateways: Vec<Gateway>,
    pub(super) server: Server,
    random: fastrand::Rng,
    start: Instant,
    now_us: f64,
    /// Requests on the way to the server.
    on_the_way: VecDeque<Request>,
    queued: VecDeque<Request>,
    /// Running requests by the work after which they end, in ns, and their number.
    running: BTreeMap<(u64, u64), Request>,
    /// Work in µs that a request would have received if it had run since the start.
    work: f64,
    started: u64,
    /// Clients that send again at these times, in µs, with the index of their gateway.
    thinking: BinaryHeap<Reverse<(u64, usize)>>,
    /// Clients of the first gateway that will not send again.
    leaving: u32,
    /// Maximum number of requests that the server had at once.
    pub(super) most: u32,
    pub(super) refused: u32,
    answers: u64,
}

impl Simulation {
    /// Creates a simulation with one gateway.
    pub(super) fn new(limit: MeasuredLimit, server: Server, clients: u32, seed: u64) -> Self {
        Self::shared(vec![limit], server, clients, seed)
    }

    /// Creates a simulation with a gateway for each limit, each with the same number of clients.
    #[expect(clippy::disallowed_methods, reason = "simulated time is counted from any moment")]
    pub(super) fn shared(limits: Vec<MeasuredLimit>, server: Server, clients: u32, seed: u64) -> Self {
        let gateway = |limit| Gateway { limit, waiting: clients, in_flight: 0 };
        Self {
            gateways: limits.into_iter().map(gateway).collect(),
            server,
            random: fastrand::Rng::with_seed(seed),
            start: Instant::now(),
            now_us: 0.0,
            on_the_way: VecDeque::new(),
            queued: VecDeque::new(),
            running: BTreeMap::new(),
            work: 0.0,
            started: 0,
            thinking: BinaryHeap::new(),
            leaving: 0,
            most: 0,
            refused: 0,
            answers: 0,
        }
    }

    /// Returns the limit of the first gateway.
    pub(super) fn limit(&self) -> u32 {
        self.usage(0).allowed
    }

    /// Adds clients at the first gateway.
    pub(super) fn add_clients(&mut self, clients: u32) {
        self.gateways[0].waiting += clients;
    }

    /// Removes clients of the first gateway: those that wait, and others at the end of their requests.
    pub(super) fn remove_clients(&mut self, clients: u32) {
        let waiting = clients.min(self.gateways[0].waiting);
        self.gateways[0].waiting -= waiting;
        self.leaving += clients - waiting;
    }

    fn usage(&self, index: usize) -> Usage {
        let (gateway, count) = (&self.gateways[index], self.gateways.len() as u32);
        let allowed = (gateway.limit.limit() / count).max(1);
        Usage { in_flight: gateway.in_flight, allowed, gateways: count }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_nanos((self.now_us * 1000.0) as u64)
    }

    fn at_server(&self) -> usize {
        self.gateways.iter().map(|gateway| gateway.in_flight as usize).sum()
    }

    fn dispatch(&mut self, index: usize) {
        let now = self.now();
        while self.gateways[index].waiting > 0 && self.gateways[index].in_flight < self.usage(index).allowed {
            self.gateways[index].waiting -= 1;
            self.gateways[index].in_flight += 1;
            let (usage, count) = (self.usage(index), self.at_server());
            let limit = &mut self.gateways[index].limit;
            limit.sent(usage, now);
            if count > self.server.capacity {
                limit.refused(usage);
                self.refused += 1;
                self.gateways[index].in_flight -= 1;
                self.gateways[index].waiting += 1;
                break;
            }
            self.most = self.most.max(count as u32);
            self.on_the_way.push_back(Request { gateway: index, sent: self.now_us });
        }
    }

    fn start_queued(&mut self) {
        while self.running.len() < self.server.width
            && let Some(request) = self.queued.pop_front()
        {
            let warm_up = if self.started == 0 { self.server.warm_up_us as f64 } else { 0.0 };
            let length = self.server.lengths.draw(&mut self.random) + warm_up;
            self.started += 1;
            self.running.insert((((self.work + length) * 1000.0) as u64, self.started), request);
        }
    }

    /// Runs for this many seconds, and returns the answers per second.
    pub(super) fn run(&mut self, seconds: f64) -> f64 {
        let (until, before) = (self.now_us + seconds * 1e6, self.answers);
        (0..self.gateways.len()).for_each(|index| self.dispatch(index));
        while self.now_us < until {
            self.step(until);
        }
        (self.answers - before) as f64 / seconds
    }

    /// Advances to the next event: an answer, a request that reaches the server, a client that sends again, or a limit
    /// that grows without an answer. If nothing happens before `until`, the time is `until`.
    fn step(&mut self, until: f64) {
        let speed = self.server.speed(self.running.len() + self.queued.len());
        let end = self.running.first_key_value().map(|((work, _), _)| {
            let left = (*work as f64 / 1000.0 - self.work).max(0.0);
            self.now_us + left / speed
        });
        let arrival = self.on_the_way.front().map(|request| request.sent + HOP_US as f64);
        let client = self.thinking.peek().map(|Reverse((at, _))| *at as f64);
        let (end, arrival, client) = (end.unwrap_or(until), arrival.unwrap_or(until), client.unwrap_or(until));
        let growth = self.next_growth().unwrap_or(until);
        let next = end.min(arrival).min(client).min(growth).min(until).max(self.now_us);
        self.work += (next - self.now_us) * speed;
        self.now_us = next;
        if next >= until {
            return;
        } else if end <= next {
            self.answer();
        } else if arrival <= next {
            self.queued.extend(self.on_the_way.pop_front());
        } else if client <= next {
            let gateway = self.thinking.pop().map_or(0, |Reverse((_, gateway))| gateway);
            if gateway == 0 && self.leaving > 0 {
                self.leaving -= 1;
            } else {
                self.gateways[gateway].waiting += 1;
                self.dispatch(gateway);
            }
        } else {
            self.grow();
        }
        self.start_queued();
    }

    fn next_growth(&self) -> Option<f64> {
        let waiting = self.gateways.iter().filter(|gateway| gateway.waiting > 0);
        let growths = waiting.filter_map(|gateway| gateway.limit.grows_at()).min()?;
        Some(growths.saturating_duration_since(self.start).as_secs_f64() * 1e6)
    }

    fn grow(&mut self) {
        let now = self.now() + Duration::from_nanos(1);
        for index in 0..self.gateways.len() {
            let limit = &mut self.gateways[index].limit;
            if limit.grows_at().is_some() {
                limit.grow(now);
            }
            self.dispatch(index);
        }
    }

    fn answer(&mut self) {
        let Some((_, request)) = self.running.pop_first() else { return };
        let (usage, now) = (self.usage(request.gateway), self.now());
        let gateway = &mut self.gateways[request.gateway];
        let took = Duration::from_nanos(((self.now_us - request.sent) * 1000.0) as u64);
        gateway.limit.answered(usage, took, now);
        gateway.limit.ended(now);
        self.answers += 1;
        gateway.in_flight -= 1;
        self.thinking.push(Reverse((self.now_us as u64 + HOP_US, request.gateway)));
        self.dispatch(request.gateway);
    }
}

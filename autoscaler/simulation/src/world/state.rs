//! State of a simulation, and the effect of each event.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use weir_autoscaler::{Coverage, Load, Replicas, Sample};
use weir_cluster::Activity;

use super::engine::Engine;
use super::estimate::StartEstimate;
use super::gpus::{Allocated, Gpus};
use super::replicas::{Phase, SimulatedReplica, SimulatedReplicas};
use super::{Frame, Run, Wait, World};
use crate::chance::Chance;
use crate::{Observed, Policy, Service};

pub(super) struct State<'a> {
    world: &'a World,
    policy: &'a mut dyn Policy,
    now: Duration,
    /// Future events, always including the next decision.
    events: BinaryHeap<Reverse<(Duration, Event)>>,
    /// Arrival times of the requests in the queue, oldest first.
    queue: VecDeque<Duration>,
    /// Requests in flight by replica, recorded only if replicas can be lost together with them.
    at_risk: BTreeMap<u32, Vec<Wait>>,
    /// Requests at each replica that batches continuously.
    engines: BTreeMap<u32, Engine>,
    replicas: SimulatedReplicas,
    gpus: Gpus,
    estimate: StartEstimate,
    /// Number of starts that have begun.
    begun: usize,
    chance: Chance,
    desired: u32,
    in_flight: u32,
    /// Load since the last report.
    activity: Activity,
    reported: Duration,
    /// Requests in the system integrated over time, in request-seconds, since the last report.
    occupancy: f64,
    run: Run,
}

/// Events at the same time are processed in the order of this list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// This replica has started.
    Ready(u32),
    /// The start of this replica failed.
    Fail(u32),
    /// This replica has finished requests.
    Done { replica: u32, count: u32, began: Duration },
    /// A request at this replica with continuous batching ends, unless others have joined or left since.
    Step { replica: u32, version: u64 },
    /// The GPU of this replica is reclaimed.
    Reclaim(u32),
    /// The policy decides on the number of replicas.
    Decide,
}

impl<'a> State<'a> {
    pub(super) fn new(world: &'a World, policy: &'a mut dyn Policy) -> Self {
        let most = match world.service {
            Service::Each { .. } | Service::Continuous { .. } => world.service.most(),
            Service::Batched { .. } => 1,
        };
        let mut state = Self {
            world,
            policy,
            now: Duration::ZERO,
            events: BinaryHeap::from([Reverse((Duration::ZERO, Event::Decide))]),
            queue: VecDeque::new(),
            at_risk: BTreeMap::new(),
            engines: BTreeMap::new(),
            replicas: SimulatedReplicas::new(most),
            gpus: Gpus::new(world.machines),
            begun: 0,
            estimate: StartEstimate::new(world.starts.time + world.machines.node_start),
            chance: Chance::new(world.seed),
            desired: world.replicas,
            in_flight: 0,
            activity: Activity::default(),
            reported: Duration::ZERO,
            occupancy: 0.0,
            run: Run::default(),
        };
        for _ in 0..state.desired {
            state.begin_ready();
        }
        state
    }

    /// Returns the time of the next event.
    pub(super) fn next_event(&self) -> Duration {
        let next = self.events.peek();
        next.map_or(Duration::MAX, |Reverse((at, _))| *at)
    }

    /// Processes the next event.
    pub(super) fn advance(&mut self) {
        let Some(Reverse((at, event))) = self.events.pop() else {
            return;
        };
        self.elapse(at);
        match event {
            Event::Ready(replica) => self.ready(replica),
            Event::Fail(replica) => self.fail(replica),
            Event::Done { replica, count, began } => self.finish(replica, count, began),
            Event::Step { replica, version } => self.step(replica, version),
            Event::Reclaim(replica) => self.reclaim(replica),
            Event::Decide => {
                self.decide();
                self.schedule(self.world.period, Event::Decide);
            }
        }
        self.bind();
    }

    /// Processes the arrival of a request.
    pub(super) fn arrive(&mut self, at: Duration) {
        self.elapse(at);
        self.queue.push_back(at);
        self.activity.arrivals += 1;
        if self.desired == 0 {
            self.activity.woken += 1;
            self.decide();
        }
        self.bind();
    }

    /// Ends the simulation and returns its record.
    pub(super) fn end(mut self, until: Duration) -> Run {
        self.elapse(until);
        let left: Vec<_> = self.replicas.iter().filter_map(|r| r.gpu).collect();
        for gpu in left {
            self.account(gpu);
        }
        self.run.until = until;
        self.run.waits.extend(self.at_risk.into_values().flatten());
        self.run.node_time += self.gpus.node_time(until);
        self.run.waiting = self.queue.into();
        self.run.starts = self.replicas.created() - self.world.replicas;
        self.run
    }

    fn elapse(&mut self, at: Duration) {
        let passed = at.saturating_sub(self.now);
        let inside = self.queue.len() as f64 + f64::from(self.in_flight);
        self.occupancy += passed.as_secs_f64() * inside;
        self.now = at;
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        let at = self.now.saturating_add(after);
        self.events.push(Reverse((at, event)));
    }

    /// Assigns queued requests to replicas as long as there are both.
    fn bind(&mut self) {
        while !self.queue.is_empty() {
            let Some((replica, factor)) = self.replicas.take() else {
                return;
            };
            let service = self.world.service;
            let count = match service {
                Service::Each { .. } | Service::Continuous { .. } => 1,
                Service::Batched { .. } => service.most().min(self.queue.len() as u32),
            };
            self.serve(replica, count);
            let factor = factor * self.world.factor(self.now) * self.turns();
            let factor = match service {
                Service::Each { .. } | Service::Continuous { .. } => factor * self.world.lengths.draw(&mut self.chance),
                Service::Batched { .. } => factor,
            };
            self.begin(replica, count, factor);
        }
    }

    /// Begins requests or a batch at a replica, which take `factor` times as long as usual.
    fn begin(&mut self, replica: u32, count: u32, factor: f64) {
        let (service, began) = (self.world.service, self.now);
        match service {
            Service::Each { .. } | Service::Batched { .. } => {
                let time = service.time(count);
                let time = if factor == 1.0 { time } else { time.mul_f64(factor) };
                self.schedule(time, Event::Done { replica, count, began });
            }
            Service::Continuous { .. } => {
                self.engines.entry(replica).or_default().begin(service, factor, began);
                self.await_end(replica);
            }
        }
    }

    /// Ends the requests of a replica with continuous batching that have got all tokens.
    fn step(&mut self, replica: u32, version: u64) {
        let (service, now) = (self.world.service, self.now);
        if !self.engines.get(&replica).is_some_and(|engine| engine.is_current(version)) {
            return;
        }
        while let Some(began) = self.engines.get_mut(&replica).and_then(|engine| engine.end_one(service, now)) {
            self.finish(replica, 1, began);
        }
        self.await_end(replica);
    }

    fn await_end(&mut self, replica: u32) {
        let next = self.engines.get_mut(&replica).and_then(|engine| engine.next_end(self.world.service));
        match next {
            Some((time, version)) => self.schedule(time, Event::Step { replica, version }),
            None => drop(self.engines.remove(&replica)),
        }
    }

    /// Returns the factor by which time-slicing slows a replica down.
    fn turns(&self) -> f64 {
        let gpus = self.world.machines.time_sliced;
        gpus.map_or(1.0, |gpus| self.replicas.working() / f64::from(gpus)).max(1.0)
    }

    fn serve(&mut self, replica: u32, count: u32) {
        self.in_flight += count;
        let is_at_risk = self.world.machines.spot.is_some();
        for arrived in self.queue.drain(..count as usize) {
            let waited = self.now.saturating_sub(arrived);
            self.activity.queue_delay.record(waited);
            let wait = Wait { arrived, waited };
            if is_at_risk {
                self.at_risk.entry(replica).or_default().push(wait);
            } else {
                self.run.waits.push(wait);
            }
        }
    }

    fn finish(&mut self, replica: u32, count: u32, began: Duration) {
        if !self.replicas.contains(replica) {
            return; // The replica was lost, and its requests are queued again.
        }
        let took = self.now.saturating_sub(began);
        self.run.busy_time += took;
        self.in_flight -= count;
        self.activity.succeeded += u64::from(count);
        self.activity.batches.record(count, took);
        for _ in 0..count {
            self.activity.service_time.record(took);
        }
        if let Some(requests) = self.at_risk.get_mut(&replica) {
            let done = (count as usize).min(requests.len());
            self.run.waits.extend(requests.drain(..done));
        }
        if let Some(gone) = self.replicas.finish(replica) {
            self.leave(&gone);
        }
    }

    fn decide(&mut self) {
        let observed = self.observe();
        let wanted = self.policy.decide(&observed);
        let wanted = wanted.max(self.world.least).min(self.world.most);
        self.scale(wanted);
        let activity = &observed.sample.load.activity;
        self.run.frames.push(Frame {
            at: self.now,
            desired: wanted,
            ready: observed.sample.replicas.ready,
            arrivals: activity.arrivals,
            queued: self.queue.len() as u32,
            in_flight: self.in_flight,
        });
    }

    fn observe(&mut self) -> Observed {
        let replicas = Replicas {
            desired: self.desired,
            ready: self.replicas.count(Phase::Ready),
            starting: self.replicas.starting(self.now),
            // Credits are not declared, as with any runtime that reports its capacity.
            credits: None,
            cold_start: self.estimate.time(),
        };
        let span = self.now.saturating_sub(self.reported);
        let (coverage, load, concurrency) = if self.world.silences.iter().any(|when| when.contains(&self.now)) {
            (Coverage::None, Load::default(), 0.0)
        } else {
            let seconds = span.as_secs_f64();
            let inside = self.queue.len() as f64 + f64::from(self.in_flight);
            let occupancy = std::mem::take(&mut self.occupancy);
            let mean = if seconds > 0.0 { occupancy / seconds } else { inside };
            (Coverage::Complete, self.report(span, replicas.ready), mean)
        };
        let sample = Sample { at: self.now, coverage, load, replicas };
        Observed { sample, concurrency }
    }

    /// Returns the load since the last report.
    fn report(&mut self, span: Duration, ready: u32) -> Load {
        let mut activity = std::mem::take(&mut self.activity);
        activity.queued = self.queue.len() as u32;
        activity.in_flight = self.in_flight;
        activity.credits = ready * self.world.service.most();
        let oldest = self.queue.front().map(|at| self.now.saturating_sub(*at));
        activity.oldest_us = oldest.unwrap_or_default().as_micros() as u64;
        self.reported = self.now;
        Load { span, activity }
    }

    fn scale(&mut self, desired: u32) {
        for _ in self.desired..desired {
            self.ask();
        }
        for _ in desired..self.desired {
            if let Some(gone) = self.replicas.end_one() {
                self.leave(&gone);
            }
        }
        self.desired = desired;
        self.place();
    }

    /// Requests one more replica.
    fn ask(&mut self) {
        let (share, factor) = self.world.slow;
        let is_slow = self.chance.happens(share);
        let factor = if is_slow { factor } else { 1.0 };
        self.replicas.create(self.now, factor);
    }

    /// Allocates GPUs to pending replicas.
    fn place(&mut self) {
        while let Some(number) = self.replicas.pending() {
            let Some(gpu) = self.gpus.allocate(self.now) else {
                return;
            };
            self.replicas.place(number, gpu);
            self.run.peak = self.run.peak.max(self.gpus.used());
            self.start(number, gpu.node_start);
            let spot = self.world.machines.spot.filter(|_| gpu.is_spot);
            if let Some(spot) = spot {
                let life = self.chance.wait(spot.life);
                self.schedule(life, Event::Reclaim(number));
            }
        }
    }

    fn start(&mut self, number: u32, node_start: Duration) {
        let starts = &self.world.starts;
        let after = starts.time_of(self.begun) + node_start;
        self.begun += 1;
        if self.chance.happens(starts.endless) {
            return;
        }
        if self.chance.happens(starts.failing) {
            self.schedule(after, Event::Fail(number));
        } else {
            self.schedule(after, Event::Ready(number));
        }
    }

    fn begin_ready(&mut self) {
        self.ask();
        self.place();
        self.replicas.ready(self.replicas.created());
    }

    fn ready(&mut self, number: u32) {
        if let Some(asked) = self.replicas.ready(number) {
            self.estimate.add(self.now.saturating_sub(asked));
        }
    }

    fn fail(&mut self, number: u32) {
        if self.replicas.contains(number) {
            self.run.failed_starts += 1;
            self.start(number, Duration::ZERO);
        }
    }

    /// Removes a replica whose GPU is reclaimed: its requests return to the queue, and another replica is requested.
    fn reclaim(&mut self, number: u32) {
        let Some(gone) = self.replicas.remove(number) else {
            return;
        };
        self.engines.remove(&number);
        let requests = self.at_risk.remove(&number).unwrap_or_default();
        self.in_flight -= requests.len() as u32;
        for wait in requests.into_iter().rev() {
            self.queue.push_front(wait.arrived);
        }
        self.run.reclaimed += 1;
        if let Some(gpu) = gone.gpu {
            self.account(gpu);
            self.gpus.lose(gpu);
        }
        if gone.phase != Phase::Ending {
            self.ask();
        }
        self.place();
    }

    /// Frees the GPU of a replica that has ended.
    fn leave(&mut self, gone: &SimulatedReplica) {
        if let Some(gpu) = gone.gpu {
            self.account(gpu);
            self.gpus.free(gpu, self.now);
            self.place();
        }
    }

    fn account(&mut self, gpu: Allocated) {
        let time = self.now.saturating_sub(gpu.since);
        self.run.replica_time += time;
        if gpu.is_spot {
            self.run.spot_time += time;
        }
    }
}

//! State of a simulation, and what each event does to it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use weir_cluster::Activity;

use super::replicas::SimulatedReplicas;
use super::{Frame, Run, Served, Service, World};
use crate::{Coverage, Decision, Load, Replicas, Sample};

pub(super) struct State<'a> {
    world: World,
    law: &'a mut dyn FnMut(&Sample) -> Decision,
    now: Duration,
    /// Events to come; a decision is always among them.
    events: BinaryHeap<Reverse<(Duration, Event)>>,
    /// Arrival times of the requests in the queue, oldest first.
    queue: VecDeque<Duration>,
    replicas: SimulatedReplicas,
    desired: u32,
    /// Load since the last decision.
    activity: Activity,
    decided: Duration,
    run: Run,
}

/// Of several at one time, earlier ones in this list come first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// This replica has started.
    Ready(u32),
    /// This replica has finished requests.
    Done {
        replica: u32,
        count: u32,
        began: Duration,
    },
    /// The control law decides.
    Decide,
}

impl<'a> State<'a> {
    pub(super) fn new(world: World, law: &'a mut dyn FnMut(&Sample) -> Decision) -> Self {
        let mut state = Self {
            desired: world.replicas,
            world,
            law,
            now: Duration::ZERO,
            events: BinaryHeap::from([Reverse((Duration::ZERO, Event::Decide))]),
            queue: VecDeque::new(),
            replicas: SimulatedReplicas::default(),
            activity: Activity::default(),
            decided: Duration::ZERO,
            run: Run::default(),
        };
        for _ in 0..state.desired {
            let replica = state.replicas.start(Duration::ZERO);
            state.replicas.ready(replica);
        }
        state
    }

    /// Time of the next event.
    pub(super) fn next_event(&self) -> Duration {
        let next = self.events.peek();
        next.map_or(Duration::MAX, |Reverse((at, _))| *at)
    }

    /// Advances to the next event.
    pub(super) fn advance(&mut self) {
        let Some(Reverse((at, event))) = self.events.pop() else {
            return;
        };
        self.elapse(at);
        match event {
            Event::Ready(replica) => self.replicas.ready(replica),
            Event::Done {
                replica,
                count,
                began,
            } => self.finish(replica, count, began),
            Event::Decide => {
                self.decide();
                self.schedule(self.world.period, Event::Decide);
            }
        }
        self.bind();
    }

    /// Advances to the arrival of a request.
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
        self.run.waiting = self.queue.len();
        self.run.starts = self.replicas.started() - self.world.replicas;
        self.run
    }

    fn elapse(&mut self, at: Duration) {
        let passed = at.saturating_sub(self.now);
        self.run.replica_time += passed * self.replicas.count();
        self.now = at;
    }

    fn schedule(&mut self, after: Duration, event: Event) {
        self.events.push(Reverse((self.now + after, event)));
    }

    /// Gives requests to replicas as long as both are there.
    fn bind(&mut self) {
        while !self.queue.is_empty() {
            let (service, credits) = (self.world.service, self.world.credits);
            let waiting = self.queue.len() as u32;
            let Some((replica, count)) = self.replicas.take(service, credits, waiting) else {
                return;
            };
            let taken: Vec<_> = self.queue.drain(..count as usize).collect();
            for arrived in taken {
                self.serve(arrived);
            }
            let time = match service {
                Service::Each(time) => time,
                Service::Batched { fixed, each } => fixed + each * count,
            };
            let began = self.now;
            let done = Event::Done {
                replica,
                count,
                began,
            };
            self.schedule(time, done);
        }
    }

    fn serve(&mut self, arrived: Duration) {
        let waited = self.now.saturating_sub(arrived);
        self.activity.queue_delay.record(waited);
        self.run.queue_delay.record(waited);
        self.run.served.push(Served { arrived, waited });
    }

    fn finish(&mut self, replica: u32, count: u32, began: Duration) {
        let took = self.now.saturating_sub(began);
        self.activity.succeeded += u64::from(count);
        self.activity.batches.record(count, took);
        for _ in 0..count {
            self.activity.service_time.record(took);
        }
        self.replicas.finish(replica, count);
    }

    fn decide(&mut self) {
        let sample = self.sample();
        let decision = (self.law)(&sample);
        self.scale(decision.replicas);
        self.run.frames.push(Frame {
            at: self.now,
            decision,
            ready: self.replicas.ready_count(),
            queued: sample.load.activity.queued,
            in_flight: sample.load.activity.in_flight,
        });
    }

    fn sample(&mut self) -> Sample {
        let mut activity = std::mem::take(&mut self.activity);
        activity.queued = self.queue.len() as u32;
        activity.in_flight = self.replicas.in_flight();
        activity.credits = self.replicas.ready_count() * self.world.credits;
        let oldest = self.queue.front().map(|at| self.now.saturating_sub(*at));
        activity.oldest_us = oldest.unwrap_or_default().as_micros() as u64;
        let span = self.now.saturating_sub(self.decided);
        self.decided = self.now;
        Sample {
            at: self.now,
            coverage: Coverage::Complete,
            load: Load { span, activity },
            replicas: Replicas {
                desired: self.desired,
                ready: self.replicas.ready_count(),
                starting: self.replicas.starting(self.now),
                // As with any runtime that reports its capacity.
                credits: None,
                cold_start: self.world.cold_start,
            },
        }
    }

    fn scale(&mut self, desired: u32) {
        for _ in self.desired..desired {
            let replica = self.replicas.start(self.now);
            self.schedule(self.world.cold_start, Event::Ready(replica));
        }
        for _ in desired..self.desired {
            self.replicas.end_one();
        }
        self.desired = desired;
    }
}

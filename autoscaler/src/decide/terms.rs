//! The numbers behind a decision.

use std::time::Duration;

use weir_cluster::{ScaleTarget, ScalingPolicy};

use crate::economy::starts;
use crate::{Memory, Sample};

/// The numbers behind a decision: what a person needs to check it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Arrivals, in requests per second.
    pub rate: f64,
    /// Requests that a replica takes at once.
    pub credits: f64,
    /// Requests per second that a replica can do; unset until it was measured.
    pub capacity: Option<f64>,
    /// Replicas that would be busy all the time with the requests that come.
    pub offered: f64,
    /// Replicas for what the load may grow by within the time of a start, as it did before.
    pub growth: f64,
    /// Replicas for the irregularity of arrivals.
    pub headroom: f64,
    /// Replicas for the requests that come, with growth and headroom.
    pub base: f64,
    /// Requests that will wait once every replica is up that was asked for.
    pub backlog: f64,
    /// Replicas to work the backlog off.
    pub drain: f64,
    /// Replicas needed now, a whole number.
    pub need: u32,
    /// Time that a start takes.
    pub cold_start: Duration,
    /// How long requests wait, as [`Load::delay`](crate::Load::delay) says it.
    pub queue_delay: Duration,
}

/// The least share of the past whose growth within a start is provided for. What grows more is late for a part of one
/// start, and a replica for it would be idle the rest of the time.
const FORESEEN: f64 = 0.8;

/// The highest share: of the growth that was seen but once in a hundred starts, nothing can be said.
const FORESEEN_MOST: f64 = 0.99;

/// The most that a load is taken to grow within a start beyond the most that it was: the first minutes of a service,
/// in which all is growth, are no habit.
const BEYOND: f64 = 1.25;

/// The part of a start that requests wait which come with growth nobody foresaw: some are in time, and the load often
/// falls before the start ends.
const WAITED: f64 = 0.3;

/// The most replicas with those for the backlog, for each that arrivals need. Were the backlog of starts that do not
/// come answered by more starts, there would be no end to it. Nearly as many again work any backlog off in little more
/// than the time in which it came; twice as many are not asked for even where chance makes the rate high.
const BACKLOGGED: f64 = 1.75;

/// So many batches are many for one replica.
const MANY: f64 = 4.0;

/// A twentieth of a replica is not worth one.
const SLACK: f64 = 0.05;

impl Terms {
    pub(super) fn new(policy: &ScalingPolicy, memory: &Memory, sample: &Sample) -> Self {
        let rate = memory.arrivals.rate(policy.window);
        let credits = credits(policy, memory, sample);
        let capacity = capacity(policy, memory, credits);
        let mut terms = Self {
            rate,
            credits,
            capacity,
            cold_start: sample.replicas.cold_start,
            queue_delay: sample.load.delay(policy.quantile),
            ..Self::default()
        };
        if let Some(capacity) = capacity {
            terms.calculate(policy, memory, sample, capacity);
        }
        terms.need = terms.needed(sample).min(useful(policy, memory, sample));
        terms
    }

    fn calculate(&mut self, policy: &ScalingPolicy, memory: &Memory, sample: &Sample, capacity: f64) {
        let mean = memory.arrivals.mean(policy.window);
        self.offered = self.rate / capacity;
        let grown = grown(policy, memory, mean) / capacity;
        // Where no request comes, nothing grows.
        self.growth = if sample.has_work() { (grown - self.offered).max(0.0) } else { 0.0 };
        self.headroom = self.headroom_for(self.offered, memory);
        self.base = self.offered + self.growth + self.headroom;
        let delay = policy.queue_delay.as_secs_f64();
        let start = self.cold_start.as_secs_f64();
        self.backlog = self.predict(sample, capacity);
        // A replica for work that would be done before its start has paid off is never started, so the
        // backlog is drained over about the length of a start.
        let over = start.max(2.0 * delay);
        self.drain = (self.backlog - self.rate * delay).max(0.0) / (capacity * over);
        let most = (BACKLOGGED * self.offered - self.base).max(0.0);
        self.drain = if sample.replicas.is_overdue() { 0.0 } else { self.drain.min(most) };
    }

    /// Room for irregular arrivals grows with the square root of the load, as many small variations partly
    /// cancel out.
    fn headroom_for(&self, offered: f64, memory: &Memory) -> f64 {
        memory.headroom.deviations() * (offered / self.credits).sqrt()
    }

    /// Replicas for requests that come at this rate; none before it is known what one does.
    pub(super) fn replicas_for(&self, rate: f64, memory: &Memory) -> u32 {
        let offered = rate / self.capacity.unwrap_or(f64::INFINITY);
        whole(offered + self.headroom_for(offered, memory))
    }

    /// The queue a start from now, with every replica up that is ready or starts. As these are counted, a
    /// long start is not answered by more and more of them.
    fn predict(&self, sample: &Sample, capacity: f64) -> f64 {
        let ahead = self.cold_start;
        let starting = sample.replicas.coming();
        let starting: Duration = starting.map(|eta| ahead.saturating_sub(eta)).sum();
        let ready = ahead.as_secs_f64() * f64::from(sample.replicas.ready);
        let done = capacity * (ready + starting.as_secs_f64());
        let queued = f64::from(sample.load.activity.queued);
        (queued + self.rate * ahead.as_secs_f64() - done).max(0.0)
    }

    /// A whole number: at least one while anything is to be done, and one only then.
    fn needed(&self, sample: &Sample) -> u32 {
        let calculated = whole(self.base + self.drain).max(self.unmeasured(sample));
        match (sample.is_active(), calculated) {
            (true, _) => calculated.max(1),
            (false, 0 | 1) => 0,
            (false, more) => more,
        }
    }
}

impl Terms {
    /// Replicas before it is known what one does: a second once many more wait than the first will take at once, and a
    /// third for twice as many. The queue of a first start says nothing else, and starts that do not come are no reason
    /// for more of them.
    fn unmeasured(&self, sample: &Sample) -> u32 {
        let waiting = f64::from(sample.load.activity.queued);
        let many = waiting / (MANY * self.credits);
        if self.capacity.is_some() || many <= 1.0 {
            0
        } else if many < 2.0 || sample.replicas.is_overdue() {
            2
        } else {
            3
        }
    }
}

/// The whole number of replicas that do the work of so many.
fn whole(replicas: f64) -> u32 {
    let rounded = (replicas - SLACK).ceil();
    rounded.clamp(0.0, f64::from(ScalingPolicy::MOST)) as u32
}

/// The most replicas that could be of use: one for each request that came within the window or is there, or for each
/// part of one that a policy allows. Some hundreds at once are not yet some hundreds each second, however long each
/// takes.
fn useful(policy: &ScalingPolicy, memory: &Memory, sample: &Sample) -> u32 {
    let activity = &sample.load.activity;
    let there = f64::from(activity.queued) + f64::from(activity.in_flight);
    let requests = memory.arrivals.count(policy.window).max(there);
    let each = match policy.target {
        Some(ScaleTarget::Concurrency(target)) => target.clamp(1e-4, 1.0),
        Some(ScaleTarget::Rps(_)) => return ScalingPolicy::MOST,
        None => 1.0,
    };
    whole(requests.max(1.0) / each)
}

/// The load to provide for, in requests per second: what it usually grows to, and where starts are worth much, what it
/// seldom grows to, up to the most it was.
fn grown(policy: &ScalingPolicy, memory: &Memory, mean: f64) -> f64 {
    let usual = memory.growth.highest(FORESEEN, mean);
    let seldom = memory.growth.highest(foreseen(policy, memory), mean);
    let most = memory.peak.rate();
    usual.min(BEYOND * most).max(seldom.min(most)).max(mean)
}

/// The share of the past whose growth within a start is provided for: where a start is worth much, the odds at which
/// a replica pays that most starts will not need.
fn foreseen(policy: &ScalingPolicy, memory: &Memory) -> f64 {
    let worth = WAITED * memory.price.starts(starts(policy.economy));
    (worth / (1.0 + worth)).clamp(FORESEEN, FORESEEN_MOST)
}

fn credits(policy: &ScalingPolicy, memory: &Memory, sample: &Sample) -> f64 {
    let credits = memory.curve.credits(sample.replicas.credits);
    match policy.target {
        Some(ScaleTarget::Concurrency(target)) => credits.min(target),
        Some(ScaleTarget::Rps(_)) | None => credits,
    }
}

fn capacity(policy: &ScalingPolicy, memory: &Memory, credits: f64) -> Option<f64> {
    let measured = memory.curve.capacity(credits);
    match policy.target {
        Some(ScaleTarget::Rps(target)) => Some(measured.unwrap_or(target).min(target)),
        Some(ScaleTarget::Concurrency(_)) | None => measured,
    }
}

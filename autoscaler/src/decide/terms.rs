//! The numbers behind a decision.

use std::time::Duration;

use weir_cluster::{ScaleTarget, ScalingPolicy};

use crate::memory::start_worth::starts;
use crate::{Memory, Sample};

/// Numbers of the calculation behind a decision, so that a person can check it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Terms {
    /// Arrivals, in requests per second.
    pub rate: f64,
    /// Concurrent requests of a replica.
    pub credits: f64,
    /// Requests per second that a replica can serve; `None` until it was measured.
    pub capacity: Option<f64>,
    /// Replicas that the current arrivals would keep busy all the time.
    pub offered: f64,
    /// Replicas for the growth of the load during a start, as it grew before.
    pub growth: f64,
    /// Replicas for the irregularity of arrivals.
    pub headroom: f64,
    /// Replicas for the current arrivals, with growth and headroom.
    pub base: f64,
    /// Requests that will be queued when every starting replica is ready.
    pub backlog: f64,
    /// Replicas to work off the backlog.
    pub drain: f64,
    /// Replicas needed now, rounded to a whole number.
    pub need: u32,
    /// Time that a start takes.
    pub cold_start: Duration,
    /// Time that requests wait, as [`Load::delay`](crate::Load::delay) returns it.
    pub queue_delay: Duration,
}

/// Least quantile of the past growth of the load within a cold start for which replicas are provided. If the load grows
/// by more, requests are late for a part of one cold start; a replica for such rare growth would be idle the rest of
/// the time.
const FORESEEN: f64 = 0.8;

/// Highest quantile of past growth for which replicas are provided: growth that was seen only once in a hundred cold
/// starts may be chance.
const FORESEEN_MOST: f64 = 0.99;

/// Limit of the load after the growth at the quantile [`FORESEEN`], relative to the highest past load. In the first
/// minutes of a service the load only grows, and the measured growth is far too high.
const BEYOND: f64 = 1.25;

/// Mean part of a cold start for which requests wait if the load grows beyond the provided quantile. It is below 1
/// because some requests are still in time, and the load often falls before the start ends.
const WAITED: f64 = 0.3;

/// Limit of `base + drain`, relative to `offered`. Without a limit, a backlog behind starts that never end would
/// request ever more starts. Three quarters more replicas work off any backlog in little more time than it took to
/// build up. The limit is below 2, so that the number does not double even if the measured rate is high by chance.
const BACKLOGGED: f64 = 1.75;

/// Number of full batches, of `credits` requests each, that may be queued before a second replica is started although
/// the capacity is unknown.
const MANY: f64 = 4.0;

/// Fraction of a replica that is ignored when rounding up.
const SLACK: f64 = 0.05;

impl Terms {
    pub(super) fn new(policy: &ScalingPolicy, memory: &mut Memory, sample: &Sample) -> Self {
        let rate = memory.arrivals.latest().rate;
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
        self.offered = self.rate / capacity;
        // Without requests nothing grows.
        self.growth = if sample.has_work() { (grown(policy, memory) / capacity - self.offered).max(0.0) } else { 0.0 };
        self.headroom = self.headroom_for(self.offered, memory);
        self.base = self.offered + self.growth + self.headroom;
        let delay = policy.queue_delay.as_secs_f64();
        let start = self.cold_start.as_secs_f64();
        self.backlog = self.predict(sample, capacity);
        // A replica does not pay off if the work is done before its start has ended, so the backlog is drained over
        // about the length of a start.
        let over = start.max(2.0 * delay);
        self.drain = (self.backlog - self.rate * delay).max(0.0) / (capacity * over);
        let most = (BACKLOGGED * self.offered - self.base).max(0.0);
        self.drain = if sample.replicas.is_overdue() { 0.0 } else { self.drain.min(most) };
    }

    /// Returns true if too many queued requests wait longer than the target. An empty queue is never late, whatever
    /// happened before.
    pub(crate) fn is_late(&self, policy: &ScalingPolicy, sample: &Sample) -> bool {
        sample.load.activity.queued > 0 && self.queue_delay > policy.queue_delay
    }

    /// Returns the replicas for irregular arrivals. They grow with the square root of the load, because many small
    /// variations partly cancel out.
    fn headroom_for(&self, offered: f64, memory: &Memory) -> f64 {
        memory.headroom.deviations() * (offered / self.credits).sqrt()
    }

    /// Returns the replicas for this rate of requests; 0 before the capacity of a replica was measured.
    pub(super) fn replicas_for(&self, rate: f64, memory: &Memory) -> u32 {
        let offered = rate / self.capacity.unwrap_or(f64::INFINITY);
        whole(offered + self.headroom_for(offered, memory))
    }

    /// Predicts the queue one start from now, with every replica that is ready or starting. Because starting replicas
    /// are counted, a long start does not lead to more and more of them.
    fn predict(&self, sample: &Sample, capacity: f64) -> f64 {
        let ahead = self.cold_start;
        let starting = sample.replicas.coming();
        let starting: Duration = starting.map(|eta| ahead.saturating_sub(eta)).sum();
        let ready = ahead.as_secs_f64() * f64::from(sample.replicas.ready);
        let done = capacity * (ready + starting.as_secs_f64());
        let queued = f64::from(sample.load.activity.queued);
        (queued + self.rate * ahead.as_secs_f64() - done).max(0.0)
    }

    /// Rounds to a whole number: at least one while there is work, and none without work if only one would be left.
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
    /// Returns the replicas to have before the capacity of one was measured: two if more than [`MANY`] full batches are
    /// queued, three if at least twice as many are, and otherwise 0. A longer queue does not justify more, because the
    /// capacity is unknown. While a start is overdue the number is at most two, because a further start would probably
    /// not end either.
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

/// Rounds a fraction of replicas up to a whole number.
fn whole(replicas: f64) -> u32 {
    let rounded = (replicas - SLACK).ceil();
    rounded.clamp(0.0, f64::from(ScalingPolicy::MOST)) as u32
}

/// Returns the most replicas that can be useful: one for each request that arrived within the window or is present, and
/// more if the policy's concurrency target is below 1. Thus a burst of some hundred requests is not taken for a rate of
/// some hundred per second, however long each request takes.
fn useful(policy: &ScalingPolicy, memory: &Memory, sample: &Sample) -> u32 {
    let activity = &sample.load.activity;
    let there = f64::from(activity.queued) + f64::from(activity.in_flight);
    let requests = memory.arrivals.latest().count.max(there);
    let each = match policy.target {
        Some(ScaleTarget::Concurrency(target)) => target.clamp(1e-4, 1.0),
        Some(ScaleTarget::Rps(_)) => return ScalingPolicy::MOST,
        None => 1.0,
    };
    whole(requests.max(1.0) / each)
}

/// Returns the load to provide for, in requests per second: the usual growth and, where starts are worth much, rarer
/// growth up to the highest past load.
fn grown(policy: &ScalingPolicy, memory: &Memory) -> f64 {
    let mean = memory.arrivals.latest().mean;
    let usual = memory.growth.highest(FORESEEN, mean);
    let most = memory.peak.rate();
    let usual = usual.min(BEYOND * most);
    let share = foreseen(policy, memory);
    // Rarer growth matters only if it is rarer, and below the highest past load.
    let seldom = if share > FORESEEN && usual < most { memory.growth.highest(share, mean).min(most) } else { 0.0 };
    usual.max(seldom).max(mean)
}

/// Returns the quantile of past growth for which replicas are provided. The more avoiding a cold start is worth, the
/// higher it is: at this quantile the expected waiting costs as much as a replica that is mostly idle.
fn foreseen(policy: &ScalingPolicy, memory: &Memory) -> f64 {
    let worth = WAITED * memory.start_worth.starts(starts(policy.economy));
    (worth / (1.0 + worth)).clamp(FORESEEN, FORESEEN_MOST)
}

fn credits(policy: &ScalingPolicy, memory: &Memory, sample: &Sample) -> f64 {
    let credits = memory.curve.credits(sample.replicas.credits);
    match policy.target {
        Some(ScaleTarget::Concurrency(target)) => credits.min(target),
        Some(ScaleTarget::Rps(_)) | None => credits,
    }
}

fn capacity(policy: &ScalingPolicy, memory: &mut Memory, credits: f64) -> Option<f64> {
    let measured = memory.curve.capacity(credits);
    match policy.target {
        Some(ScaleTarget::Rps(target)) => Some(measured.unwrap_or(target).min(target)),
        Some(ScaleTarget::Concurrency(_)) | None => measured,
    }
}

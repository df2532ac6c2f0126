//! The numbers behind a decision.

use std::time::Duration;

use weir_cluster::{Economy, ScaleTarget, ScalingPolicy};

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
    /// Replicas for the requests that come, with room for their irregularity.
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

/// Room for irregular arrivals grows with the square root of the load, as many small variations partly
/// cancel out. A half keeps the queue of Poisson arrivals under a second or two at batches of some
/// tenths of a second.
const ROOM: f64 = 0.5;

/// A twentieth of a replica is not worth one.
const SLACK: f64 = 0.05;

/// Least time that the last replica is kept where the policy sets none: a person who tries a service by hand
/// comes back within a minute.
const LAST_KEPT: Duration = Duration::from_secs(60);

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
            terms.calculate(policy, sample, capacity);
        }
        terms.need = terms.needed(sample);
        terms
    }

    /// How long a replica (1 is the first) is kept after it was last needed. What the policy sets holds;
    /// otherwise the time grows with what a start costs. Within the window in which arrivals are
    /// counted, that fewer would do is noise.
    pub(super) fn keep(&self, policy: &ScalingPolicy, level: u32) -> Duration {
        let starts = self.cold_start * starts(policy.economy);
        let pays = starts.min(longest(policy.economy));
        match level {
            1 => policy.retention.unwrap_or(pays.max(LAST_KEPT)),
            _ => pays.max(policy.window).max(policy.scale_down_delay),
        }
    }

    fn calculate(&mut self, policy: &ScalingPolicy, sample: &Sample, capacity: f64) {
        let offered = self.rate / capacity;
        self.base = offered + ROOM * (offered / self.credits).sqrt();
        let delay = policy.queue_delay.as_secs_f64();
        let start = self.cold_start.as_secs_f64();
        self.backlog = self.predict(sample, capacity);
        // A replica for work that would be done before its start has paid off is never started, so the
        // backlog is drained over about the length of a start.
        let over = start.max(2.0 * delay);
        self.drain = (self.backlog - self.rate * delay).max(0.0) / (capacity * over);
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
        let calculated = (self.base + self.drain - SLACK).ceil();
        let calculated = calculated.clamp(0.0, f64::from(ScalingPolicy::MOST)) as u32;
        match (sample.is_active(), calculated) {
            (true, _) => calculated.max(1),
            (false, 0 | 1) => 0,
            (false, more) => more,
        }
    }
}

/// A replica is kept this many times as long as a start takes. Once is break-even: at worst twice the
/// cost of knowing the future, when only its own time counts. The rest is for requests that would
/// wait for the start.
fn starts(economy: Economy) -> u32 {
    match economy {
        Economy::Economy => 1,
        Economy::Balanced => 3,
        Economy::Latency => 10,
    }
}

/// The longest that a replica is kept idle, however long it takes to start.
fn longest(economy: Economy) -> Duration {
    match economy {
        Economy::Economy => Duration::from_secs(5 * 60),
        Economy::Balanced => Duration::from_secs(30 * 60),
        Economy::Latency => Duration::from_secs(4 * 60 * 60),
    }
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

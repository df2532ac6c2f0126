//! Comparison of the throughputs with two limits.

use std::time::Instant;

use super::step::Step;
use super::window::{MAX_WINDOWS, Pool, Ratio, Slots, Throughput, Window};

/// A larger limit is kept if it brings at least this fraction of the possible gain in throughput. A smaller limit is
/// kept if it costs at most this fraction of the possible loss. At the resulting limit, 10 % more requests would bring
/// 1.25 % more answers.
pub(super) const ELASTICITY: f64 = 0.125;

/// Ratio of two throughputs above which their difference is attributed to the measurement.
const SAME: f64 = 0.95;

/// Ratio of the speeds of a request above which they count as equal. It is low because the windows of the startup are short.
const SAME_PACE: f64 = 0.85;

/// Ratio of the throughputs above which a slightly smaller limit is unlikely to be the cause: for a server whose answers
/// per second fall as the inverse of its requests, it is 1.19.
const LEAP: f64 = 1.4;

/// Ratio of the throughputs of two windows below which the server counts as changed.
const CHANGED: f64 = 0.7;

/// Minimum number of answers in the longest window.
const MIN_ANSWERS: u32 = 512;
/// Minimum number of answers in the longest window, for each request that the limit allows at once.
const GENERATIONS: u32 = 6;
/// Answers in the shortest window whose standard error is used to end it.
const SHORT_WINDOW: u32 = 128;
/// Maximum number of answers, for each request that the limit allows at once, that are awaited to reach
/// [`MIN_ANSWERS`].
const MAX_GENERATIONS: u32 = 32;

/// Number of standard errors from which a difference is clear. A window is compared after each block, so two would be
/// exceeded by chance too often.
const CLEAR: f64 = 2.5;
/// Number of standard errors from which a difference is hardly chance. It is for decisions that later searches correct.
const LIKELY: f64 = 1.5;
/// Number of standard errors that are needed before a server gets more than two requests. With fewer, two short
/// windows that differ by chance look like a second worker.
pub(super) const CERTAIN: f64 = 4.0;

/// Minimum number of blocks in a window that is judged.
pub(super) const MIN_BLOCKS: u32 = 4;
/// Minimum number of blocks in a window that may show a second worker.
pub(super) const PARALLEL_BLOCKS: u32 = 8;

/// Requests that one gateway has at a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Requests of the gateway that are at the replica.
    pub(crate) in_flight: u32,
    /// Requests that the gateway may have there: its share of the limit.
    pub(crate) allowed: u32,
    /// Gateways that share the limit.
    pub(crate) gateways: u32,
}

/// Throughput with a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Base {
    pub(super) limit: u32,
    /// Requests from which a step goes up or down: the limit, or what the clients use of it on average.
    pub(super) used: u32,
    /// This gateway's share of the limit.
    pub(super) allowed: u32,
    pub(super) throughput: Pool,
    pub(super) slots: Slots,
    /// Speed of a request compared with the limit before.
    pub(super) pace: Pace,
}

/// Speed of each request compared with the one that a clearly smaller limit brought. More requests in a server never make
/// one of them faster. So if both limits bring the same speed, each number between them does, and fewer requests bring
/// fewer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    Unknown,
    Kept,
}

/// Result of comparing a limit with the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Keep,
    Revert,
    /// More answers are needed.
    Open,
    /// The clients did not send enough requests for a comparison.
    NoDemand,
}

/// Returns true if the server's throughput changed so much that the best limit may have changed too.
pub(super) fn has_changed(before: Throughput, now: Throughput) -> bool {
    now.compare(before, CHANGED, CLEAR) == Ratio::Below || now.compare(before, 1.0 / CHANGED, CLEAR) == Ratio::Above
}

/// Returns true if a window of a limit that stays is complete: it has as many answers as the longest window, or it is
/// precise enough for the step that is `due`.
pub(super) fn is_complete(window: &Window, usage: Usage, due: Option<Step>) -> bool {
    let is_long = window.blocks() >= 2 * MIN_BLOCKS && window.answers() >= SHORT_WINDOW;
    let is_precise = due.is_some_and(|step| window.throughput().error <= step.precision());
    is_long && is_precise || window.answers() >= longest(usage.allowed)
}

/// Returns the number of answers in the longest window.
pub(super) fn longest(allowed: u32) -> u32 {
    let least = MIN_ANSWERS.min(allowed.saturating_mul(MAX_GENERATIONS));
    allowed.saturating_mul(GENERATIONS).max(least)
}

/// Judges a window by its throughput alone, however uncertain that is.
fn judge_point(base: Base, window: &Window, usage: Usage) -> Judgement {
    let Some(threshold) = threshold(base, window, usage) else {
        return Judgement::NoDemand;
    };
    let is_enough = window.throughput().ratio_to(base.throughput.mean) >= threshold;
    if is_enough { Judgement::Keep } else { Judgement::Revert }
}

/// Judges a window of the startup by its throughput. More answers per second are conclusive at once. Fewer may be
/// chance until each request was answered twice. If the clients do not fill the larger limit, the difference may be small
/// and the windows are short, so fewer answers count only if they are hardly chance: a smaller limit is tried later anyway.
pub(super) fn judge_early(base: Base, window: &Window, usage: Usage) -> Judgement {
    let ratio = window.throughput().compare(base.throughput.mean, SAME, LIKELY);
    match judge_point(base, window, usage) {
        Judgement::Revert if window.answers() < 2 * usage.allowed => Judgement::Open,
        Judgement::Revert if window.slots == Slots::Idle && ratio != Ratio::Below => Judgement::Keep,
        judgement @ (Judgement::Keep | Judgement::Revert | Judgement::Open | Judgement::NoDemand) => judgement,
    }
}

/// Judges a window once the difference is clear, or the window is precise enough for the step.
pub(super) fn judge_clear((base, step): (Base, Step), window: &Window, usage: Usage, now: Instant) -> Judgement {
    if window.is_far_behind(base.throughput.mean, now) {
        return Judgement::Revert;
    }
    let Some(threshold) = threshold(base, window, usage) else {
        return Judgement::NoDemand;
    };
    let (throughput, most) = (window.throughput(), longest(base.most_at_once().max(usage.allowed)));
    let is_precise = window.answers() >= most && throughput.error <= step.precision();
    let compare = |errors| throughput.compare(base.throughput.mean, threshold, errors);
    match compare(CLEAR) {
        _ if window.blocks() < MIN_BLOCKS => Judgement::Open,
        Ratio::Above => Judgement::Keep,
        Ratio::Below => Judgement::Revert,
        Ratio::Unclear if !is_precise && window.answers() < most * MAX_WINDOWS => Judgement::Open,
        Ratio::Unclear => judge_point(base, window, usage),
    }
}

/// Returns the minimum ratio of the throughputs for which the new limit is kept; `None` if the clients did not use it.
fn threshold(base: Base, window: &Window, usage: Usage) -> Option<f64> {
    let factor = f64::from(window.peak) / f64::from(base.allowed.max(1));
    if usage.allowed > base.allowed && factor < 1.05 {
        return None;
    }
    match (window.slots, base.slots) {
        // No request waited with the larger limit, so the rate is that of the clients.
        (Slots::Idle, _) if usage.allowed > base.allowed => Some(SAME),
        (Slots::Idle, _) => None,
        // The rate before was that of the clients. With fewer requests, only an overloaded server answers more per
        // second.
        (Slots::Busy, Slots::Idle) => Some(1.0 / SAME),
        (Slots::Busy, Slots::Busy) => Some(usage.least_ratio(factor)),
    }
}

impl Base {
    /// Returns true if the throughput is known precisely enough to try `step`. While no request waits, it is the rate
    /// of the clients, which more windows do not show more precisely.
    pub(super) fn is_precise(&self, step: Step) -> bool {
        self.slots == Slots::Idle || self.throughput.is_precise(step.precision())
    }

    /// Returns true if `limit` may bring more answers. While no request waits, only a smaller one can.
    pub(super) fn may_improve(&self, limit: u32, step: Step) -> bool {
        match self.slots {
            Slots::Busy => limit != self.limit,
            Slots::Idle => limit < self.used && !step.is_finest(),
        }
    }

    /// Returns true if fewer requests brought so many more answers than the clients' rate that the server has probably become
    /// faster meanwhile.
    pub(super) fn has_leapt(&self, fewer: Self) -> bool {
        let gain = fewer.throughput.mean.ratio_to(self.throughput.mean);
        self.slots == Slots::Idle && fewer.limit < self.limit && gain > LEAP
    }

    /// Returns the same with the pace that `before` shows, the throughput with a smaller limit.
    pub(super) fn after(self, before: Self) -> Self {
        let gain = self.throughput.mean.ratio_to(before.throughput.mean);
        let is_kept = gain * f64::from(before.used) >= SAME_PACE * f64::from(self.used);
        Self { pace: if is_kept { Pace::Kept } else { Pace::Unknown }, ..self }
    }

    /// Returns the maximum number of requests of this gateway that the limit and the clients allowed at once.
    fn most_at_once(&self) -> u32 {
        self.allowed.min(self.used)
    }

    pub(super) fn of(limit: u32, window: &Window, usage: Usage) -> Self {
        let used = match window.slots {
            Slots::Busy => limit,
            Slots::Idle => window.at_once().saturating_mul(usage.gateways).clamp(1, limit),
        };
        let (throughput, slots) = (Pool::of(window.throughput()), window.slots);
        Self { limit, used, allowed: usage.allowed, throughput, slots, pace: Pace::Unknown }
    }
}

impl Usage {
    /// Returns the minimum ratio of this gateway's answers per second for which it keeps `factor` times as many
    /// requests, if no other gateway changes its number. At a server without spare capacity the additional answers are
    /// taken from the other gateways, which does not count as a gain.
    pub(super) fn least_ratio(self, factor: f64) -> f64 {
        let gateways = f64::from(self.gateways.max(1));
        let taken = factor * gateways / (factor + gateways - 1.0);
        taken + (factor - taken) * ELASTICITY
    }
}

//! The control law: computes the number of replicas and the reason for it.

mod behavior;
mod keep;
mod reason;
mod terms;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use reason::{LimitedBy, Reason};
pub use terms::Terms;

use weir_cluster::{RevisionName, ScalingPolicy};

use self::keep::Keep;
use crate::{Account, Coverage, Memory, Sample, Unplaced};

/// Number of replicas for a revision, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Desired number of replicas.
    pub replicas: u32,
    /// The rule that determined the number; `Display` prints it as a sentence.
    pub reason: Reason,
    /// The numbers from which the decision was calculated.
    pub terms: Terms,
    /// Desired replicas that cannot start; `None` if there are none.
    pub unplaced: Option<Unplaced>,
    /// Durations of the service's latest starts, oldest first.
    pub starts: Arc<[Duration]>,
    /// GPU time and requests of the revision so far.
    pub account: Account,
}

/// Latest decision for each revision. The map is published every second, so each decision is shared through an `Arc`.
pub type Decisions = BTreeMap<RevisionName, Arc<Decision>>;

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, reason, unplaced, .. } = self;
        let noun = match replicas {
            1 => "replica",
            _ => "replicas",
        };
        write!(f, "{replicas} {noun}: {reason}")?;
        match unplaced {
            Some(unplaced) => write!(f, "; {unplaced}"),
            None => Ok(()),
        }
    }
}

/// Decides how many replicas a revision should have now. `memory` is the one of the previous decision for this revision,
/// or a new one. It is changed in place, because copying it took a sixth of the time of a decision.
pub fn decide(policy: &ScalingPolicy, memory: &mut Memory, sample: &Sample) -> Decision {
    memory.observe(policy, sample);
    memory.note_activity(sample);
    let terms = Terms::new(policy, memory, sample);
    let choice = match sample.coverage {
        Coverage::None => (sample.replicas.desired, Reason::Blind),
        Coverage::Partial | Coverage::Complete => choose(policy, memory, sample, &terms),
    };
    let (replicas, reason) = behavior::limit(policy, memory, sample, choice);
    let (replicas, reason) = bound(policy, replicas, reason);
    memory.levels.decided(replicas);
    memory.changes.decided(replicas, sample.at);
    memory.is_enough = is_enough(policy, memory, sample, &terms);
    Decision { replicas, reason, terms, unplaced: None, starts: Arc::default(), account: Account::default() }
}

/// Returns true if enough replicas are ready, and the queue has recovered from the last time when they were not.
fn is_enough(policy: &ScalingPolicy, memory: &Memory, sample: &Sample, terms: &Terms) -> bool {
    sample.replicas.ready >= terms.need && (memory.is_enough || !terms.is_late(policy, sample))
}

/// Returns the number before behavior and bounds apply. Each rule may raise the number of the rules before it.
fn choose(policy: &ScalingPolicy, memory: &mut Memory, sample: &Sample, terms: &Terms) -> (u32, Reason) {
    let rule = Keep::new(policy, memory, terms.cold_start);
    let choice = if is_over(policy, memory, sample) {
        memory.levels.clear();
        (0, idle(memory, &rule))
    } else {
        let needed = match correct(policy, memory, sample, terms) {
            Some(more) => more,
            None => (terms.need, need(memory, sample, terms, &rule)),
        };
        let needed = share(memory, sample, terms, needed);
        keep(memory, sample, wake(policy, sample, needed), &rule)
    };
    let choice = expect(memory, terms, choice);
    let choice = foresee(memory, sample, terms, choice);
    hold(policy, sample, terms, step_down(memory, sample, choice))
}

/// Lowers the number if replicas share a GPU or cores, so that more of them do not serve more requests: to the highest
/// number that may be tried now or, once the load is small enough, to the smaller number that reached the same
/// throughput.
fn share(memory: &Memory, sample: &Sample, terms: &Terms, needed: (u32, Reason)) -> (u32, Reason) {
    let Some((tried, fewer)) = memory.sharing.limit(memory.seen) else {
        return needed;
    };
    let most = if terms.rate < ENOUGH * fewer.rate { fewer.replicas } else { tried.max(sample.replicas.desired) };
    if needed.0 <= most {
        return needed;
    }
    let wanted = needed.0;
    (most, Reason::Shared { wanted, fewer })
}

/// Lowers the number in steps towards the smaller number that reached the same throughput. If that number is too low
/// after all, late requests show it while more replicas still run.
fn step_down(memory: &mut Memory, sample: &Sample, choice: (u32, Reason)) -> (u32, Reason) {
    let desired = sample.replicas.desired;
    match choice {
        (fewer, reason @ Reason::Shared { .. }) if fewer < desired => {
            let step = memory.sharing.step_down(memory.seen, desired);
            (step.max(fewer), reason)
        }
        _ => choice,
    }
}

/// Share of its measured throughput up to which the smaller number of replicas serves the load without a growing queue.
const ENOUGH: f64 = 0.8;

/// Raises the number to the replicas that are kept although the load does not need them.
fn keep(memory: &mut Memory, sample: &Sample, needed: (u32, Reason), rule: &Keep<'_>) -> (u32, Reason) {
    let now = memory.seen;
    // A replica that starts ahead of the load does not count as needed yet.
    let counted = match needed.0 {
        1 if !sample.has_work() => 0,
        more => more.min(ScalingPolicy::MOST),
    };
    memory.levels.set(counted, now, rule.least());
    let (kept, longer) = memory.levels.kept(now, needed.0, |level, past| rule.time(level, past));
    if kept > needed.0 { (kept, Reason::Kept { needed: needed.0, longer }) } else { needed }
}

/// Raises the number to the replicas that were needed at regular intervals before, so that they are ready in time.
fn expect(memory: &Memory, terms: &Terms, choice: (u32, Reason)) -> (u32, Reason) {
    let expected = memory.levels.expected(memory.seen, terms.cold_start);
    if expected > choice.0 {
        let needed = choice.0;
        (expected, Reason::Expected { needed })
    } else {
        choice
    }
}

/// Raises the number to the replicas for the rate that was usual at this time of the previous days or weeks.
fn foresee(memory: &Memory, sample: &Sample, terms: &Terms, choice: (u32, Reason)) -> (u32, Reason) {
    let rate = memory.seasons.rate(sample.at, terms.cold_start);
    let foreseen = terms.replicas_for(rate, memory);
    if foreseen > choice.0 {
        let needed = choice.0;
        (foreseen, Reason::Foreseen { needed, rate })
    } else {
        choice
    }
}

/// Returns true if the revision was idle for the policy's retention. All replicas then end, even if the window of
/// arrivals still holds earlier requests.
fn is_over(policy: &ScalingPolicy, memory: &Memory, sample: &Sample) -> bool {
    let limit = policy.retention.map(|r| r.max(policy.scale_down_delay));
    !sample.is_active() && limit.is_some_and(|limit| memory.idle() >= limit)
}

fn idle(memory: &Memory, rule: &Keep<'_>) -> Reason {
    let first = memory.levels.unneeded(1, memory.seen);
    Reason::Idle { time: memory.idle(), kept: first.map_or(Duration::ZERO, |(_, past)| rule.time(1, past)) }
}

/// Returns the reason for the calculated number.
fn need(memory: &Memory, sample: &Sample, terms: &Terms, rule: &Keep<'_>) -> Reason {
    let waiting = sample.load.activity.queued;
    match (terms.need, terms.capacity) {
        (0, _) => idle(memory, rule),
        (_, None) => Reason::Unmeasured { waiting },
        (_, Some(capacity)) => Reason::Load { rate: terms.rate, capacity, waiting },
    }
}

/// Adds a replica if the queue stays over its target although all calculated replicas are ready: the real capacity is
/// then lower than calculated. The next one is added only after this one had time to start and to take effect.
fn correct(policy: &ScalingPolicy, memory: &mut Memory, sample: &Sample, terms: &Terms) -> Option<(u32, Reason)> {
    let replicas = &sample.replicas;
    let late = terms.is_late(policy, sample);
    let all_up = replicas.committed() == replicas.ready && replicas.ready >= terms.need.max(1);
    if !late || !all_up {
        memory.lateness.reset();
        return None;
    }
    let settled = replicas.cold_start.max(policy.queue_delay * 2).max(SETTLED);
    if memory.lateness.lasts(memory.seen) < settled {
        return None;
    }
    memory.lateness.reset();
    let more = replicas.ready.saturating_add(1);
    let waited = sample.load.oldest();
    Some((more, Reason::Corrected { waited }))
}

/// Time after which a late queue is not explained by delayed reports and snapshots, which are a second late each.
const SETTLED: Duration = Duration::from_secs(10);

/// Raises the number to the policy's activation scale when a request came at zero replicas.
fn wake(policy: &ScalingPolicy, sample: &Sample, needed: (u32, Reason)) -> (u32, Reason) {
    let (replicas, reason) = needed;
    if sample.replicas.desired > 0 || replicas == 0 || !sample.load.is_busy() {
        return (replicas, reason);
    }
    let waiting = sample.load.activity.queued;
    let replicas = replicas.max(policy.activation.get());
    (replicas, Reason::Woken { waiting })
}

/// Keeps replicas that the choice would end, while the load is not fully known or requests wait too long.
fn hold(policy: &ScalingPolicy, sample: &Sample, terms: &Terms, choice: (u32, Reason)) -> (u32, Reason) {
    let desired = sample.replicas.desired;
    if choice.0 >= desired {
        return choice;
    }
    if sample.coverage == Coverage::Partial {
        return (desired, Reason::HalfBlind);
    }
    if terms.is_late(policy, sample) {
        let waited = sample.load.oldest();
        return (desired, Reason::Late { waited });
    }
    choice
}

/// Brings the number within the policy's bounds.
fn bound(policy: &ScalingPolicy, replicas: u32, reason: Reason) -> (u32, Reason) {
    let (bounded, least) = (policy.bound(replicas), policy.bound(0));
    let reason = match bounded {
        _ if bounded > replicas => Reason::Least,
        // A kept number that equals the minimum has the minimum as its reason, because these replicas never end.
        _ if bounded == least && matches!(reason, Reason::Kept { .. }) => Reason::Least,
        _ if bounded < replicas => Reason::Most { needed: replicas },
        _ => reason,
    };
    (bounded, reason)
}

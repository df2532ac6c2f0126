//! The law: how many replicas, and why.

mod because;
mod terms;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

pub use because::Because;
pub use terms::Terms;

use crate::{Memory, Policy, Sample, Sight};

/// How many replicas, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Replicas to ask for.
    pub replicas: u32,
    /// Why; printed, it is a sentence.
    pub because: Because,
    /// The numbers behind it.
    pub terms: Terms,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            replicas, because, ..
        } = self;
        let noun = match replicas {
            1 => "replica",
            _ => "replicas",
        };
        write!(f, "{replicas} {noun}: {because}")
    }
}

/// Decides how many replicas a revision should have now. The memory is the one the last decision on
/// the same revision gave, or a new one.
#[must_use]
pub fn decide(policy: &Policy, memory: Memory, sample: &Sample) -> (Memory, Decision) {
    let mut memory = memory;
    memory.observe(policy, sample);
    memory.meet(sample);
    let terms = Terms::new(policy, &memory, sample);
    let (replicas, because) = match sample.sight {
        Sight::None => (sample.fleet.wanted, Because::Blind),
        Sight::Partial | Sight::Whole => choose(policy, &mut memory, sample, &terms),
    };
    let (replicas, because) = bound(policy, replicas, because);
    memory.levels.decided(replicas);
    let decision = Decision {
        replicas,
        because,
        terms,
    };
    (memory, decision)
}

/// The number without bounds. Each rule may raise what the rules before it say.
fn choose(policy: &Policy, memory: &mut Memory, sample: &Sample, terms: &Terms) -> (u32, Because) {
    if is_over(policy, memory, sample) {
        memory.levels.forget();
        return hold(policy, sample, (0, idle(policy, memory, terms)));
    }
    let now = memory.seen;
    let needed = match correct(policy, memory, sample, terms) {
        Some(more) => more,
        None => (terms.need, need(policy, memory, sample, terms)),
    };
    let needed = wake(policy, sample, needed);
    memory.levels.need(needed.0.min(Policy::MOST), now);
    let keep = |level| terms.keep(policy, level);
    let kept = memory.levels.kept(now, keep);
    let choice = match kept > needed.0 {
        true => (kept, keeping(memory, kept, needed.0, keep)),
        false => needed,
    };
    hold(policy, sample, choice)
}

/// Whether nothing has happened for as long as was written: then everything ends, whatever the count of
/// arrivals still holds from before.
fn is_over(policy: &Policy, memory: &Memory, sample: &Sample) -> bool {
    let limit = policy.retention.map(|r| r.max(policy.scale_down_delay));
    !sample.is_active() && limit.is_some_and(|limit| memory.idle() >= limit)
}

fn idle(policy: &Policy, memory: &Memory, terms: &Terms) -> Because {
    Because::Idle {
        time: memory.idle(),
        kept: terms.keep(policy, 1),
    }
}

/// Why the calculated number is what it is.
fn need(policy: &Policy, memory: &Memory, sample: &Sample, terms: &Terms) -> Because {
    let waiting = sample.load.activity.queued;
    match (terms.need, terms.capacity) {
        (0, _) => idle(policy, memory, terms),
        (_, None) => Because::Unmeasured { waiting },
        (_, Some(capacity)) => Because::Load {
            rate: terms.rate,
            capacity,
            waiting,
        },
    }
}

fn keeping(memory: &Memory, kept: u32, needed: u32, keep: impl Fn(u32) -> Duration) -> Because {
    let idle = memory.levels.unneeded(kept, memory.seen);
    Because::Kept {
        needed,
        longer: keep(kept).saturating_sub(idle),
    }
}

/// The correction by what is measured: if the queue stays over its target although all replicas are up
/// that should be enough, capacity is less than calculated, and one more is needed. The next follows
/// only once this one had time to start and to help.
fn correct(
    policy: &Policy,
    memory: &mut Memory,
    sample: &Sample,
    terms: &Terms,
) -> Option<(u32, Because)> {
    let fleet = &sample.fleet;
    let late = sample.load.is_late(policy.queue_delay, policy.share);
    let all_up = fleet.committed() == fleet.ready && fleet.ready >= terms.need.max(1);
    if !late || !all_up {
        memory.watch.reset();
        return None;
    }
    let patience = fleet.cold_start.max(policy.queue_delay * 2).max(SETTLED);
    if memory.watch.late(memory.seen) < patience {
        return None;
    }
    memory.watch.reset();
    let more = fleet.ready.saturating_add(1);
    let waited = sample.load.oldest();
    Some((more, Because::Corrected { waited }))
}

/// Reports and replicas are a second late each; five times that is no accident of theirs.
const SETTLED: Duration = Duration::from_secs(10);

/// What a wake-up asks for.
fn wake(policy: &Policy, sample: &Sample, needed: (u32, Because)) -> (u32, Because) {
    let (replicas, because) = needed;
    if sample.fleet.wanted > 0 || replicas == 0 || !sample.load.is_busy() {
        return (replicas, because);
    }
    let waiting = sample.load.activity.queued;
    let replicas = replicas.max(policy.activation.get());
    (replicas, Because::Woken { waiting })
}

/// What speaks against ending replicas now.
fn hold(policy: &Policy, sample: &Sample, choice: (u32, Because)) -> (u32, Because) {
    let wanted = sample.fleet.wanted;
    if choice.0 >= wanted {
        return choice;
    }
    if sample.sight == Sight::Partial {
        return (wanted, Because::HalfBlind);
    }
    if sample.load.is_late(policy.queue_delay, policy.share) {
        let waited = sample.load.oldest();
        return (wanted, Because::Late { waited });
    }
    choice
}

fn bound(policy: &Policy, replicas: u32, because: Because) -> (u32, Because) {
    let bounded = policy.bound(replicas);
    let because = match bounded {
        _ if bounded > replicas => Because::Least,
        _ if bounded < replicas => Because::Most { needed: replicas },
        _ => because,
    };
    (bounded, because)
}

//! Limits how fast the number changes, like the `behavior` of a HorizontalPodAutoscaler.

#[cfg(test)]
mod tests;

use weir_cluster::{ChangeLimit, PolicySelect, ScalingPolicy, ScalingRules};

use super::Reason;
use super::reason::LimitedBy;
use crate::memory::Changes;
use crate::{Coverage, Memory, Sample};

/// Limits the choice to what the policy's behavior allows. Bounds take precedence, as in a HorizontalPodAutoscaler: a
/// current number outside of them moves to the nearest bound at once.
pub(super) fn limit(
    policy: &ScalingPolicy,
    memory: &mut Memory,
    sample: &Sample,
    choice: (u32, Reason),
) -> (u32, Reason) {
    if policy.behavior.is_unbounded() {
        memory.changes.clear();
        return choice;
    }
    let current = sample.replicas.desired;
    memory.changes.observe(&policy.behavior, current, sample.at);
    if sample.coverage == Coverage::None {
        return choice;
    }
    let bounded = policy.bound(current);
    if bounded > current {
        return (bounded, Reason::Least);
    } else if bounded < current {
        let needed = choice.0;
        return (bounded, Reason::Most { needed });
    }
    let step = Step { policy, current, sample };
    step.limit(&mut memory.changes, choice)
}

/// One decision, with a current number within the bounds.
#[derive(Clone, Copy)]
struct Step<'a> {
    policy: &'a ScalingPolicy,
    current: u32,
    sample: &'a Sample,
}

impl Step<'_> {
    fn limit(self, changes: &mut Changes, choice: (u32, Reason)) -> (u32, Reason) {
        let behavior = &self.policy.behavior;
        let (wanted, reason) = choice;
        let tolerated = self.rules(wanted).is_some_and(|rules| {
            let change = f64::from(wanted.abs_diff(self.current));
            change <= rules.tolerance * f64::from(self.current)
        });
        let noted = if tolerated { self.current } else { wanted };
        changes.want(behavior, noted, self.sample.at);
        let Some(rules) = self.rules(wanted) else {
            return choice;
        };
        let (allowed, limited_by) = match rules.select {
            PolicySelect::Disabled => (self.current, LimitedBy::Disabled),
            PolicySelect::Max | PolicySelect::Min if tolerated => (self.current, LimitedBy::Tolerance),
            PolicySelect::Max | PolicySelect::Min => self.allowed(rules, changes, wanted),
        };
        if self.policy.bound(allowed) == self.policy.bound(wanted) {
            return (wanted, reason);
        }
        let wanted = self.policy.bound(wanted);
        (allowed, self.reason(wanted, limited_by))
    }

    /// Returns the rules for the direction of the change; `None` if nothing changes or the direction has no rules.
    fn rules(&self, wanted: u32) -> Option<&ScalingRules> {
        let behavior = &self.policy.behavior;
        match wanted.cmp(&self.current) {
            std::cmp::Ordering::Less => behavior.down.as_ref(),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => behavior.up.as_ref(),
        }
    }

    /// Returns the number that window and policies allow, and which of the two limits it.
    fn allowed(&self, rules: &ScalingRules, changes: &Changes, wanted: u32) -> (u32, LimitedBy) {
        let current = i64::from(self.current);
        let wanted = i64::from(wanted);
        let (stable, furthest) = if wanted > current {
            let least = changes.least_wanted().unwrap_or(wanted);
            (least, self.furthest(rules, changes, added, i64::max))
        } else {
            let most = changes.most_wanted().unwrap_or(wanted);
            (most, self.furthest(rules, changes, removed, i64::min))
        };
        let (low, high) = (current.min(wanted), current.max(wanted));
        let stable = self.wake(stable.clamp(low, high), wanted);
        let furthest = self.wake(furthest.clamp(low, high), wanted);
        let (allowed, limited_by) = if furthest.abs_diff(current) < stable.abs_diff(current) {
            (furthest, LimitedBy::Policies)
        } else {
            (stable, LimitedBy::Window(rules.window))
        };
        (u32::try_from(allowed).unwrap_or(0), limited_by)
    }

    /// Raises the number at zero replicas: a request that waits there is not held back by a window or a period.
    fn wake(&self, allowed: i64, wanted: i64) -> i64 {
        match self.current {
            0 => allowed.max(wanted.min(self.policy.activation.get().into())),
            _ => allowed,
        }
    }

    /// Returns the number furthest from the current one that the policies allow; `further` selects the further of two
    /// numbers.
    fn furthest(
        &self,
        rules: &ScalingRules,
        changes: &Changes,
        moved: fn(i64, ChangeLimit) -> i64,
        further: fn(i64, i64) -> i64,
    ) -> i64 {
        let allowed = rules.policies.iter().map(|policy| {
            let start = changes.at_start(policy, self.current, self.sample.at);
            moved(start, policy.most)
        });
        let furthest = match rules.select {
            PolicySelect::Max => allowed.reduce(further),
            PolicySelect::Min | PolicySelect::Disabled => allowed.reduce(|a, b| if further(a, b) == a { b } else { a }),
        };
        furthest.unwrap_or(i64::from(self.current))
    }

    fn reason(&self, wanted: u32, limited_by: LimitedBy) -> Reason {
        if wanted > self.current {
            Reason::RiseHeld { wanted, limited_by }
        } else {
            Reason::FallHeld { wanted, limited_by }
        }
    }
}

/// Returns the most replicas after one period. Percentages are computed in floating point and rounded up, as Kubernetes
/// does, so that one replica can become two.
fn added(start: i64, most: ChangeLimit) -> i64 {
    match most {
        ChangeLimit::Pods(pods) => start + i64::from(pods),
        ChangeLimit::Percent(percent) => (start as f64 * (1.0 + f64::from(percent) / 100.0)).ceil() as i64,
    }
}

/// Returns the fewest replicas after one period. Percentages are computed in floating point and rounded down, as
/// Kubernetes does.
fn removed(start: i64, most: ChangeLimit) -> i64 {
    match most {
        ChangeLimit::Pods(pods) => start - i64::from(pods),
        ChangeLimit::Percent(percent) => (start as f64 * (1.0 - f64::from(percent) / 100.0)).trunc() as i64,
    }
}

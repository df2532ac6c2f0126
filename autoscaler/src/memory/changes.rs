//! Wanted numbers and changes of the number of replicas, as far back as a policy's behavior looks.

use std::collections::VecDeque;
use std::time::Duration;

use weir_cluster::{RatePolicy, ScalingBehavior, ScalingRules};

/// Recently wanted numbers and recent changes of the number of replicas. Only changes by this law count towards the
/// behavior's limits, as in a HorizontalPodAutoscaler; a change by another writer counts as if it had been made before
/// the period.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Changes {
    /// The desired number at the last observation; `None` before the first.
    desired: Option<u32>,
    /// The last decided number that differed from the desired one, and the time of the decision; None if the desired
    /// number has changed since.
    decided: Option<(u32, Duration)>,
    /// Wanted numbers within the window for adding.
    for_adding: Lowest,
    /// Negated wanted numbers within the window for removing.
    for_removing: Lowest,
    /// Changes within the longest period, oldest first.
    made: VecDeque<Change>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    at: Duration,
    /// Number of added replicas; negative for removed ones.
    by: i64,
}

impl Changes {
    /// Observes the desired number. The first one counts as wanted, so that a new leader keeps what the previous leader
    /// would have kept.
    pub(crate) fn observe(&mut self, behavior: &ScalingBehavior, desired: u32, now: Duration) {
        let rules = behavior.up.iter().chain(&behavior.down);
        let periods = rules.flat_map(|rules| rules.policies.iter().map(|policy| policy.period));
        let longest = periods.max().unwrap_or_default();
        while self.made.front().is_some_and(|c| is_past(c.at, longest, now)) {
            self.made.pop_front();
        }
        match self.desired.replace(desired) {
            None => self.want(behavior, desired, now),
            Some(before) if before != desired => self.changed(before, desired),
            Some(_) => {}
        }
    }

    /// Forgets everything, for a policy without limits.
    pub(crate) fn clear(&mut self) {
        if self.desired.is_some() {
            *self = Self::default();
        }
    }

    /// Records the number that the law wants, and drops what is older than the windows.
    pub(crate) fn want(&mut self, behavior: &ScalingBehavior, wanted: u32, now: Duration) {
        let wanted = i64::from(wanted);
        self.for_adding.add(now, wanted, window(behavior.up.as_ref()));
        self.for_removing.add(now, -wanted, window(behavior.down.as_ref()));
    }

    /// Records the decided number.
    pub(crate) fn decided(&mut self, replicas: u32, now: Duration) {
        if self.desired.is_some_and(|desired| desired != replicas) {
            self.decided = Some((replicas, now));
        }
    }

    /// Returns the lowest number wanted within the window for adding.
    pub(crate) fn least_wanted(&self) -> Option<i64> {
        self.for_adding.value()
    }

    /// Returns the highest number wanted within the window for removing.
    pub(crate) fn most_wanted(&self) -> Option<i64> {
        self.for_removing.value().map(|value| -value)
    }

    /// Returns the number of replicas at the beginning of the policy's period, counting only changes by this law.
    pub(crate) fn at_start(&self, policy: &RatePolicy, current: u32, now: Duration) -> i64 {
        let made = self.made.iter().filter(|change| !is_past(change.at, policy.period, now));
        i64::from(current) - made.map(|change| change.by).sum::<i64>()
    }

    fn changed(&mut self, before: u32, desired: u32) {
        let Some((decided, at)) = self.decided.take() else {
            return;
        };
        let lies_between = (before < desired && desired <= decided) || (before > desired && desired >= decided);
        if lies_between {
            let by = i64::from(desired) - i64::from(before);
            self.made.push_back(Change { at, by });
        }
    }
}

fn window(rules: Option<&ScalingRules>) -> Duration {
    rules.map_or(Duration::ZERO, |rules| rules.window)
}

fn is_past(at: Duration, length: Duration, now: Duration) -> bool {
    now.saturating_sub(at) >= length
}

/// Sliding-window minimum. Only values that no later value is below are kept, so a steady load keeps two.
#[derive(Clone, Debug, Default, PartialEq)]
struct Lowest {
    /// Times and values, both ascending.
    rising: VecDeque<(Duration, i64)>,
}

impl Lowest {
    fn add(&mut self, now: Duration, value: i64, window: Duration) {
        while self.rising.back().is_some_and(|(_, last)| *last >= value) {
            self.rising.pop_back();
        }
        self.rising.push_back((now, value));
        let is_old = |(at, _): &(Duration, i64)| is_past(*at, window, now);
        while self.rising.len() > 1 && self.rising.front().is_some_and(is_old) {
            self.rising.pop_front();
        }
    }

    fn value(&self) -> Option<i64> {
        self.rising.front().map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lowest_is_that_of_the_window(numbers in prop::collection::vec((0..5_u64, -9..9_i64), 1..40), window in 1..20_u64) {
            let window = Duration::from_secs(window);
            let mut lowest = Lowest::default();
            let mut all = Vec::new();
            let mut now = Duration::ZERO;
            for (later, value) in numbers {
                now += Duration::from_secs(later);
                lowest.add(now, value, window);
                all.push((now, value));
                let within = all.iter().filter(|(at, _)| !is_past(*at, window, now));
                prop_assert_eq!(lowest.value(), within.map(|(_, value)| *value).min());
            }
        }
    }

    #[test]
    fn a_steady_load_keeps_few_numbers() {
        let mut lowest = Lowest::default();
        for second in 0..10_000 {
            lowest.add(Duration::from_secs(second), 4, Duration::from_secs(3600));
        }
        assert_eq!(lowest.rising.len(), 1);
    }
}

//! Tests of what Kubernetes documents about a HorizontalPodAutoscaler's `behavior`, and cases of its own tests.

use std::time::Duration;

use weir_cluster::{RatePolicy, ScalingBehavior};

use super::*;
use crate::{Load, Replicas};

/// A revision for which a test sets the number that the law wants.
struct Revision {
    policy: ScalingPolicy,
    memory: Memory,
    replicas: u32,
    reason: String,
}

impl Revision {
    fn new(replicas: u32, behavior: ScalingBehavior) -> Self {
        Self {
            policy: ScalingPolicy { min: 0, behavior, ..ScalingPolicy::default() },
            memory: Memory::default(),
            replicas,
            reason: String::new(),
        }
    }

    /// Returns the decision at this second if the law wants this number; the cluster follows at once.
    fn at(&mut self, second: u64, wanted: u32) -> u32 {
        let sample = Sample {
            at: Duration::from_secs(second),
            coverage: Coverage::Complete,
            load: Load::default(),
            replicas: Replicas { desired: self.replicas, ..Replicas::default() },
        };
        let (replicas, reason) = limit(&self.policy, &mut self.memory, &sample, (wanted, Reason::HalfBlind));
        self.replicas = self.policy.bound(replicas);
        self.memory.changes.decided(self.replicas, sample.at);
        self.reason = reason.to_string();
        self.replicas
    }

    /// Returns the decisions at these seconds if the law wants this number all the time.
    fn each<const N: usize>(&mut self, seconds: [u64; N], wanted: u32) -> [u32; N] {
        seconds.map(|second| self.at(second, wanted))
    }
}

fn rate(most: ChangeLimit, period: u64) -> RatePolicy {
    RatePolicy { most, period: Duration::from_secs(period) }
}

fn rules(window: u64, policies: &[RatePolicy]) -> ScalingRules {
    ScalingRules {
        window: Duration::from_secs(window),
        policies: policies.to_vec(),
        select: PolicySelect::Max,
        tolerance: 0.0,
    }
}

fn up(rules: ScalingRules) -> ScalingBehavior {
    ScalingBehavior { up: Some(rules), down: None }
}

fn down(rules: ScalingRules) -> ScalingBehavior {
    ScalingBehavior { up: None, down: Some(rules) }
}

/// The example of the Kubernetes documentation: from 80 replicas towards 10, the first step removes 8. At 72 replicas,
/// 10 % is 7.2 and is rounded up to 8. Below 40 replicas the first policy (Pods) applies and removes 4 at a time.
#[test]
fn the_policy_with_the_most_change_counts() {
    let policies = [rate(ChangeLimit::Pods(4), 60), rate(ChangeLimit::Percent(10), 60)];
    let mut revision = Revision::new(80, down(rules(0, &policies)));
    let seconds: [u64; 12] = std::array::from_fn(|i| i as u64 * 60);
    assert_eq!(revision.each(seconds, 10), [72, 64, 57, 51, 45, 40, 36, 32, 28, 24, 20, 16]);
}

#[test]
fn min_selects_the_policy_with_the_least_change() {
    let policies = [rate(ChangeLimit::Pods(5), 60), rate(ChangeLimit::Percent(10), 60)];
    let mut rules = rules(0, &policies);
    rules.select = PolicySelect::Min;
    let mut falling = Revision::new(100, down(rules.clone()));
    assert_eq!(falling.each([0, 60], 10), [95, 90]);
    let mut rising = Revision::new(10, up(rules));
    assert_eq!(rising.each([0, 60], 100), [11, 13]);
}

#[test]
fn a_direction_can_be_disabled() {
    let mut disabled = ScalingRules::default_down();
    disabled.select = PolicySelect::Disabled;
    let mut revision = Revision::new(5, down(disabled));
    assert_eq!(revision.at(0, 1), 5);
    assert_eq!(revision.reason, "1 would be enough, but autoScaling.behavior.scaleDown is Disabled");
    assert_eq!(revision.at(4000, 0), 5);
    assert_eq!(revision.at(4001, 9), 9);
}

#[test]
fn the_defaults_add_four_or_double_and_remove_after_five_minutes() {
    let both = ScalingBehavior { up: Some(ScalingRules::default_up()), down: Some(ScalingRules::default_down()) };
    let mut revision = Revision::new(1, both.clone());
    assert_eq!(revision.each([0, 14, 15, 30], 50), [5, 5, 10, 20]);
    let mut revision = Revision::new(7, both);
    assert_eq!(revision.each([0, 1, 299, 300], 2), [7, 7, 7, 2]);
    assert_eq!(revision.reason, Reason::HalfBlind.to_string());
}

#[test]
fn the_highest_of_the_window_holds_a_fall_back() {
    let mut revision = Revision::new(4, down(ScalingRules::default_down()));
    assert_eq!((revision.at(0, 4), revision.at(100, 9)), (4, 9));
    assert_eq!((revision.at(101, 6), revision.at(200, 3)), (9, 9));
    assert_eq!(
        revision.reason,
        "3 would be enough, but autoScaling.behavior.scaleDown has a stabilization window of 300 s"
    );
    // The nine of second 100 leave the window first, then the six.
    assert_eq!((revision.at(400, 3), revision.at(401, 3)), (6, 3));
}

#[test]
fn the_lowest_of_the_window_holds_a_rise_back() {
    let all = [rate(ChangeLimit::Percent(1000), 15)];
    let mut revision = Revision::new(2, up(rules(60, &all)));
    assert_eq!((revision.at(0, 8), revision.at(30, 5)), (2, 2));
    assert_eq!(revision.reason, "5 are needed, but autoScaling.behavior.scaleUp has a stabilization window of 60 s");
    assert_eq!((revision.at(60, 7), revision.at(90, 7)), (5, 7));
}

#[test]
fn replicas_removed_within_the_period_may_return_beyond_the_limit() {
    let one = [rate(ChangeLimit::Pods(1), 60)];
    let both =
        ScalingBehavior { up: Some(rules(0, &one)), down: Some(rules(0, &[rate(ChangeLimit::Percent(100), 15)])) };
    let mut revision = Revision::new(10, both);
    assert_eq!((revision.at(0, 4), revision.at(10, 20)), (4, 11));
    assert_eq!(revision.reason, "20 are needed, but autoScaling.behavior.scaleUp allows no more in this period");
}

#[test]
fn a_change_by_others_is_the_start_of_the_next_change() {
    let one = [rate(ChangeLimit::Pods(1), 60)];
    let mut revision = Revision::new(3, up(rules(0, &one)));
    assert_eq!((revision.at(0, 20), revision.at(1, 20)), (4, 4));
    revision.replicas = 10;
    // The law itself added one replica in this period.
    assert_eq!((revision.at(2, 20), revision.at(60, 20)), (10, 11));
}

#[test]
fn bounds_hold_at_once() {
    let mut slow = ScalingRules::default_down();
    slow.policies = vec![rate(ChangeLimit::Pods(1), 1800)];
    let mut revision = Revision::new(15, down(slow.clone()));
    revision.policy.max = Some(10);
    assert_eq!((revision.at(0, 2), revision.at(1, 2)), (10, 10));
    let mut disabled = slow;
    disabled.select = PolicySelect::Disabled;
    let mut revision = Revision::new(0, up(disabled));
    revision.policy.min = 3;
    assert_eq!((revision.at(0, 9), revision.at(1, 9)), (3, 3));
}

#[test]
fn a_change_within_the_tolerance_is_ignored() {
    let mut tolerant = ScalingRules::default_up();
    tolerant.tolerance = 0.1;
    let mut revision = Revision::new(20, up(tolerant.clone()));
    assert_eq!((revision.at(0, 22), revision.at(1, 23)), (20, 23));
    let mut revision = Revision::new(20, up(tolerant));
    revision.at(0, 21);
    assert_eq!(
        revision.reason,
        "21 are needed, but the change is within the tolerance of autoScaling.behavior.scaleUp"
    );
}

#[test]
fn only_disabled_holds_back_a_request_at_zero() {
    let none = [rate(ChangeLimit::Percent(100), 1800)];
    let mut revision = Revision::new(0, up(rules(3600, &none)));
    assert_eq!((revision.at(0, 9), revision.at(1, 9)), (1, 1));
    let mut disabled = rules(0, &none);
    disabled.select = PolicySelect::Disabled;
    let mut revision = Revision::new(0, up(disabled));
    assert_eq!(revision.at(0, 1), 0);
    assert_eq!(revision.reason, "1 is needed, but autoScaling.behavior.scaleUp is Disabled");
}

#[test]
fn huge_values_and_stopped_clocks_do_no_harm() {
    let huge = [rate(ChangeLimit::Pods(u32::MAX), 1800), rate(ChangeLimit::Percent(u32::MAX), 1)];
    let both = ScalingBehavior { up: Some(rules(0, &huge)), down: Some(rules(0, &huge)) };
    let mut revision = Revision::new(1, both);
    for second in [5, 5, 0, 5] {
        assert_eq!(revision.at(second, 10_000), 10_000);
        assert_eq!(revision.at(second, 0), 0);
    }
}

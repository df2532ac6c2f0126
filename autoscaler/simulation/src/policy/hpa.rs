//! Kubernetes' HorizontalPodAutoscaler (`pkg/controller/podautoscaler`), and Triton's use of it.

use std::collections::VecDeque;
use std::time::Duration;

use super::window::{Window, allowed, count, is_due};
use super::{Observed, Policy};

/// Parts common to all uses of an HPA: sync period, rate limits and stabilization windows.
#[derive(Clone, Debug)]
pub(super) struct Hpa {
    least: u32,
    up: Duration,
    down: Duration,
    /// Calculated numbers, with their times.
    calculated: VecDeque<(Duration, u32)>,
    synced: Option<Duration>,
}

/// Number of pods over which a metric is averaged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pods {
    pub(super) current: u32,
    pub(super) ready: u32,
}

const SYNC: Duration = Duration::from_secs(15);
const DOWN: Duration = Duration::from_secs(300);
const TOLERANCE: f64 = 0.1;

impl Hpa {
    /// Creates an HPA with Kubernetes' defaults: a stabilization window of five minutes down.
    pub(super) fn new(least: u32) -> Self {
        Self::stabilized(least, Duration::ZERO, DOWN)
    }

    /// Creates an HPA with these stabilization windows up and down.
    pub(super) fn stabilized(least: u32, up: Duration, down: Duration) -> Self {
        Self { least, up, down, calculated: VecDeque::new(), synced: None }
    }

    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        is_due(&mut self.synced, now, SYNC)
    }

    /// Returns the number to set for this calculated one, limited by the windows and by the default policies: up by
    /// four or 100 % in 15 s, down by any number at once.
    pub(super) fn set(&mut self, now: Duration, current: u32, calculated: u32) -> u32 {
        self.calculated.push_back((now, calculated));
        let longest = self.up.max(self.down);
        while self.calculated.front().is_some_and(|(at, _)| *at + longest < now) {
            self.calculated.pop_front();
        }
        let within = |window: Duration| {
            let inside = self.calculated.iter().filter(move |(at, _)| *at + window >= now);
            inside.map(|(_, number)| *number)
        };
        let up = within(self.up).min().unwrap_or(calculated);
        let down = within(self.down).max().unwrap_or(calculated);
        let stable = current.max(up).min(down.max(up));
        let limit = (current + 4).max(current * 2);
        stable.min(limit).max(self.least)
    }
}

/// Returns the number for a metric whose mean over ready pods is `ratio` times its target.
pub(super) fn by_ratio(ratio: f64, pods: Pods) -> u32 {
    let is_same = |ratio: f64| (ratio - 1.0).abs() <= TOLERANCE;
    if is_same(ratio) {
        return pods.current;
    }
    if ratio < 1.0 || pods.current <= pods.ready {
        return count(ratio * f64::from(pods.ready));
    }
    // Pods that are not ready count as idle.
    let ratio = ratio * f64::from(pods.ready) / f64::from(pods.current);
    if is_same(ratio) || ratio < 1.0 {
        return pods.current;
    }
    count(ratio * f64::from(pods.current))
}

/// Returns the number for a metric summed over all pods, with a target per pod (`AverageValue`).
pub(super) fn by_total(total: f64, target: f64, current: u32) -> u32 {
    let ratio = total / (target * f64::from(current.max(1)));
    if (ratio - 1.0).abs() <= TOLERANCE {
        return current;
    }
    count(total / target)
}

/// HPA on the ratio of queue time to compute time with target 1, as in Triton's guides.
#[derive(Clone, Debug)]
pub struct HpaPolicy {
    hpa: Hpa,
    queue: Window,
    compute: Window,
    desired: u32,
}

/// Window of the rates in the queries of the guides.
const RATES: Duration = Duration::from_secs(60);

impl HpaPolicy {
    /// Creates the policy with at least one replica, because an HPA does not scale from zero.
    #[must_use]
    pub fn new() -> Self {
        Self { hpa: Hpa::new(1), queue: Window::new(RATES), compute: Window::new(RATES), desired: 1 }
    }
}

impl Default for HpaPolicy {
    fn default() -> Self {
        Self::new()
    }
}

impl Policy for HpaPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        self.desired = allowed(self.desired, sample.replicas.desired);
        let activity = &sample.load.activity;
        self.queue.add(sample.at, activity.queue_delay.sum_us() as f64);
        self.compute.add(sample.at, activity.service_time.sum_us() as f64);
        let pods = Pods { current: self.desired, ready: sample.replicas.ready.min(self.desired) };
        if self.hpa.is_due(sample.at) && pods.ready > 0 {
            let ratio = self.queue.sum() / self.compute.sum().max(1.0);
            let calculated = by_ratio(ratio, pods);
            self.desired = self.hpa.set(sample.at, self.desired, calculated);
        }
        self.desired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(current: u32, ready: u32) -> Pods {
        Pods { current, ready }
    }

    /// `TestReplicaCalcScaleUp`, `…ScaleUpUnreadyLessScale`, `…ScaleUpUnreadyNoScale`, `…ScaleDown` and
    /// `…Tolerance` of `replica_calculator_test.go`, as ratios of use to target.
    #[test]
    fn the_hpa_scales_by_a_mean_as_in_its_own_tests() {
        assert_eq!(by_ratio(0.5 / 0.3, pods(3, 3)), 5);
        assert_eq!(by_ratio(0.6 / 0.3, pods(3, 2)), 4);
        assert_eq!(by_ratio(1.02 / 1.0, pods(3, 3)), 3);
        assert_eq!(by_ratio(1.2 / 1.0, pods(3, 1)), 3);
        assert_eq!(by_ratio(0.28 / 0.5, pods(5, 5)), 3);
    }

    /// The rows of `TestReplicaCalcScaleUpPerPodCMExternal` and `TestReplicaCalcScaleDownPerPodCMExternal`.
    #[test]
    fn the_hpa_scales_by_a_sum_as_in_its_own_tests() {
        assert_eq!(by_total(8600.0, 2150.0, 3), 4);
        assert_eq!(by_total(8600.0, 2867.0, 5), 3);
    }

    #[test]
    fn the_hpa_doubles_at_most_and_waits_before_it_scales_down() {
        let mut hpa = Hpa::new(1);
        let at = Duration::from_secs;
        assert_eq!(hpa.set(at(0), 1, 50), 5);
        assert_eq!(hpa.set(at(15), 5, 50), 10);
        assert_eq!(hpa.set(at(30), 10, 50), 20);
        assert_eq!(hpa.set(at(45), 20, 3), 20);
        assert_eq!(hpa.set(at(331), 20, 3), 3);
        let mut late = Hpa::stabilized(1, at(240), at(240));
        assert_eq!(late.set(at(0), 2, 2), 2);
        assert_eq!(late.set(at(60), 2, 6), 2);
        assert_eq!(late.set(at(241), 2, 6), 6);
    }
}

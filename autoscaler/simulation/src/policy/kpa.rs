//! Knative's pod autoscaler (knative/serving, `pkg/autoscaler/scaling/autoscaler.go`).

use std::collections::VecDeque;
use std::time::Duration;

use super::window::is_due;
use super::{Observed, Policy};

/// Knative's pod autoscaler by concurrency: the mean of a long window, or of a short one in panic mode.
#[derive(Clone, Debug)]
pub struct KpaPolicy {
    /// Target of requests in flight per replica.
    target: f64,
    up_rate: f64,
    down_rate: f64,
    panic_threshold: f64,
    /// Concurrency in each second of the window.
    buckets: VecDeque<(u64, f64)>,
    panic: Option<Duration>,
    most_in_panic: u32,
    desired: u32,
    ticked: Option<Duration>,
}

const TICK: Duration = Duration::from_secs(2);
const STABLE: Duration = Duration::from_secs(60);
/// Seconds of the panic window: a tenth of the stable window.
const PANIC_SECONDS: u64 = 6;

impl KpaPolicy {
    /// Creates the policy with Knative's defaults and this target per replica.
    #[must_use]
    pub fn new(target: f64) -> Self {
        Self {
            target: target.max(0.01),
            up_rate: 1000.0,
            down_rate: 2.0,
            panic_threshold: 2.0,
            buckets: VecDeque::new(),
            panic: None,
            most_in_panic: 0,
            desired: 0,
            ticked: None,
        }
    }

    fn scale(&mut self, (stable, panic): (f64, f64), ready: u32, now: Duration) -> u32 {
        let ready = f64::from(ready.max(1));
        let limit = |wanted: f64| {
            let least = (ready / self.down_rate).floor();
            wanted.max(least).min((ready * self.up_rate).ceil())
        };
        let in_panic = (panic / self.target).ceil();
        let by_stable = limit((stable / self.target).ceil()) as u32;
        let by_panic = limit(in_panic) as u32;
        let is_over = in_panic / ready >= self.panic_threshold;
        match self.panic {
            _ if is_over => self.panic = Some(now),
            Some(since) if since + STABLE < now => {
                self.panic = None;
                self.most_in_panic = 0;
            }
            Some(_) | None => {}
        }
        if self.panic.is_none() {
            return by_stable;
        }
        self.most_in_panic = self.most_in_panic.max(by_stable).max(by_panic);
        self.most_in_panic
    }

    fn record(&mut self, second: u64, concurrency: f64) {
        let last = self.buckets.back().map(|(at, _)| *at);
        if last.is_some_and(|at| second >= at + STABLE.as_secs()) {
            self.buckets.clear();
        }
        match self.buckets.back_mut() {
            Some((at, value)) if *at == second => *value = value.max(concurrency),
            Some(_) | None => self.buckets.push_back((second, concurrency)),
        }
        let oldest = second.saturating_sub(STABLE.as_secs());
        while self.buckets.front().is_some_and(|(at, _)| *at + 1 < oldest) {
            self.buckets.pop_front();
        }
    }

    /// Returns the mean of the last seconds; after idleness, only of the seconds since the first request.
    fn average(&self, second: u64, length: u64) -> f64 {
        let Some((first, _)) = self.buckets.front() else {
            return 0.0;
        };
        let inside = self.buckets.iter().filter(|(at, _)| at + length > second);
        let sum: f64 = inside.map(|(_, value)| value).sum();
        sum / (second.saturating_sub(*first) + 1).min(length) as f64
    }
}

impl Policy for KpaPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        let second = sample.at.as_secs();
        let is_poke = self.desired == 0 && sample.load.activity.woken > 0;
        // The activator of a service at zero reports its first request at once, as one in flight.
        let least = if is_poke { 1.0 } else { 0.0 };
        if sample.replicas.desired > 0 || observed.concurrency > 0.0 || is_poke {
            self.record(second, observed.concurrency.max(least));
        }
        if is_poke || is_due(&mut self.ticked, sample.at, TICK) {
            let stable = self.average(second, STABLE.as_secs());
            let panic = self.average(second, PANIC_SECONDS);
            self.desired = self.scale((stable, panic), sample.replicas.ready, sample.at);
        }
        self.desired
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kpa(target: f64) -> KpaPolicy {
        KpaPolicy { up_rate: 10.0, down_rate: 10.0, ..KpaPolicy::new(target) }
    }

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    /// The rows of `TestAutoscalerScale` in `autoscaler_test.go`: target, stable, panic, ready, wanted.
    #[test]
    fn the_kpa_scales_as_in_its_own_tests() {
        let rows = [
            (10.0, 0.0, 0.0, 1, 0),
            (181.0, 21.0, 26.0, 1, 1),
            (10.0, 50.0, 49.0, 1, 5),
            (10.0, 50.0, 50.0, 5, 5),
            (10.0, 50.0, 100.0, 1, 10),
            (10.0, 50.0, 10.0, 1, 5),
            (10.0, 100.0, 100.0, 8, 10),
            (10.0, 1000.0, 1001.0, 1, 10),
            (10.0, 1000.0, 888.0, 0, 10),
            (10.0, 1.0, 1.0, 100, 10),
            (10.0, 1.0, 1.0, 10, 1),
        ];
        for (target, stable, panic, ready, wanted) in rows {
            let scale = kpa(target).scale((stable, panic), ready, at(0));
            assert_eq!(scale, wanted, "{target} {stable} {panic} {ready}");
        }
        let slow = |up_rate, down_rate, target| KpaPolicy { up_rate, down_rate, ..KpaPolicy::new(target) };
        assert_eq!(slow(1.1, 10.0, 1.0).scale((3.0, 3.1), 2, at(0)), 3);
        assert_eq!(slow(10.0, 1.1, 10.0).scale((1.0, 1.0), 100, at(0)), 90);
    }

    /// `TestAutoscalerUnpanicAfterSlowIncrease`, `TestAutoscalerPanicThenUnPanicScaleDown` and the two rows that begin
    /// in panic mode.
    #[test]
    fn the_kpa_panics_and_recovers_as_in_its_own_tests() {
        let mut one = kpa(1.0);
        assert_eq!(one.scale((11.0, 25.0), 10, at(100)), 25);
        assert_eq!(one.scale((30.0, 41.0), 40, at(130)), 41);
        assert_eq!(one.scale((50.0, 56.0), 55, at(162)), 50);
        assert_eq!(one.panic, None);
        let mut one = kpa(10.0);
        assert_eq!(one.scale((100.0, 100.0), 1, at(0)), 10);
        assert_eq!(one.scale((100.0, 1000.0), 10, at(0)), 100);
        assert_eq!(one.scale((1.0, 1.0), 10, at(30)), 100);
        assert_eq!(one.scale((1.0, 1.0), 10, at(61)), 1);
        let mut one = kpa(1.0);
        (one.panic, one.most_in_panic) = (Some(at(5)), 5);
        assert_eq!(one.clone().scale((50.0, 30.0), 5, at(10)), 50);
        assert_eq!(one.scale((20.0, 30.0), 5, at(10)), 30);
    }

    #[test]
    fn after_idleness_the_mean_covers_only_known_seconds() {
        let mut one = kpa(1.0);
        one.record(0, 10.0);
        assert_eq!(one.average(0, 60), 10.0);
        one.record(1, 0.0);
        assert_eq!(one.average(1, 60), 5.0);
        one.record(100, 6.0);
        assert_eq!(one.average(100, 60), 6.0);
    }
}

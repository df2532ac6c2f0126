//! NVIDIA Dynamo's planner (ai-dynamo/dynamo, `components/src/dynamo/planner`).

use std::time::Duration;

use super::window::{Window, allowed, count, is_due};
use super::{Observed, Policy};

/// Dynamo's planner: a forecast of the next interval divided by the profiled throughput of an engine, and optionally a
/// loop by load that adds or removes one engine.
#[derive(Clone, Debug)]
pub struct DynamoPolicy {
    /// Requests per second of an engine that meets its targets.
    engine: f64,
    /// Seconds of a full batch.
    batch: f64,
    /// Delay target of the loop by load; `None` without that loop.
    by_load: Option<Duration>,
    interval_count: u64,
    planned: Option<Duration>,
    loaded: Option<Duration>,
    rates: Window,
    trend: Trend,
    floor: u32,
    desired: u32,
}

const INTERVAL: Duration = Duration::from_secs(180);
const LOAD_INTERVAL: Duration = Duration::from_secs(5);
/// Part of the target below which the predicted delay allows one engine fewer.
const SENSITIVITY: f64 = 0.8;

impl DynamoPolicy {
    /// Creates a planner for engines of this throughput whose full batch takes this long. With a delay, the loop by
    /// load runs as well.
    #[must_use]
    pub fn new(engine: f64, batch: Duration, by_load: Option<Duration>) -> Self {
        Self {
            engine,
            batch: batch.as_secs_f64(),
            by_load,
            interval_count: 0,
            planned: Some(Duration::ZERO),
            loaded: None,
            rates: Window::new(Duration::from_secs(30)),
            trend: Trend::default(),
            floor: 1,
            desired: 1,
        }
    }

    /// Predicts the delay with this number of engines: the queued requests, and a queue that grows with the
    /// utilization.
    fn predict(&self, queued: f64, rate: f64, engines: f64) -> f64 {
        let load = rate / (engines * self.engine);
        if load >= 1.0 {
            return f64::INFINITY;
        }
        let waits = queued / (engines * self.engine);
        waits + self.batch * load / (2.0 * engines * (1.0 - load))
    }

    fn by_load(&self, target: Duration, queued: f64, ready: u32) -> u32 {
        let rate = self.rates.mean();
        let engines = f64::from(ready);
        let target = target.as_secs_f64();
        if self.predict(queued, rate, engines) > target {
            return ready + 1;
        }
        let fewer = self.predict(queued, rate, engines - 1.0);
        if ready > 1 && fewer < SENSITIVITY * target {
            return ready - 1;
        }
        ready
    }
}

impl Policy for DynamoPolicy {
    fn decide(&mut self, observed: &Observed) -> u32 {
        let sample = &observed.sample;
        self.desired = allowed(self.desired, sample.replicas.desired);
        let activity = &sample.load.activity;
        self.interval_count += activity.arrivals;
        let seconds = sample.load.span.as_secs_f64();
        if seconds > 0.0 {
            self.rates.add(sample.at, activity.arrivals as f64 / seconds);
        }
        if is_due(&mut self.planned, sample.at, INTERVAL) {
            let count_now = std::mem::take(&mut self.interval_count) as f64;
            let next = self.trend.next(count_now) / INTERVAL.as_secs_f64();
            self.floor = count(next / self.engine).max(1);
            self.desired = match self.by_load {
                None => self.floor,
                Some(_) => self.desired.max(self.floor),
            };
        }
        let ready = sample.replicas.ready;
        // The loop does nothing while the number of engines changes.
        let is_settled = ready == self.desired;
        if let Some(target) = self.by_load
            && is_due(&mut self.loaded, sample.at, LOAD_INTERVAL)
            && is_settled
        {
            let queued = f64::from(activity.queued);
            self.desired = self.by_load(target, queued, ready).max(self.floor);
        }
        self.desired
    }
}

/// Dynamo's Kalman filter of a local linear trend, with its default noise.
#[derive(Clone, Debug, Default)]
struct Trend {
    state: Option<(f64, f64)>,
    /// Variance of the level, covariance, and variance of the slope.
    variance: (f64, f64, f64),
    seen: u32,
}

const LEVEL_NOISE: f64 = 1.0;
const SLOPE_NOISE: f64 = 0.1;
const MEASURED_NOISE: f64 = 10.0;
/// Number of values that the filter needs; with fewer, the forecast is the last value.
const FEWEST: u32 = 5;

impl Trend {
    /// Adds a value and forecasts the next one.
    fn next(&mut self, value: f64) -> f64 {
        self.seen += 1;
        let Some((level, slope)) = self.state else {
            self.state = Some((value, 0.0));
            self.variance = (1.0, 0.0, 1.0);
            return value;
        };
        let (l, b, s) = self.variance;
        let (l, b, s) = (l + 2.0 * b + s + LEVEL_NOISE, b + s, s + SLOPE_NOISE);
        let gain = (l / (l + MEASURED_NOISE), b / (l + MEASURED_NOISE));
        let error = value - (level + slope);
        let state = (level + slope + gain.0 * error, slope + gain.1 * error);
        self.variance = (l * (1.0 - gain.0), b * (1.0 - gain.0), s - gain.1 * b);
        self.state = Some(state);
        if self.seen < FEWEST {
            return value;
        }
        (state.0 + state.1).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forecast_follows_a_level_and_a_trend() {
        let mut level = Trend::default();
        let last = (0..50).map(|_| level.next(100.0)).last();
        assert!((last.unwrap() - 100.0).abs() < 1e-6);
        let mut trend = Trend::default();
        let last = (0..50).map(|step| trend.next(f64::from(step) * 10.0)).last();
        assert!((last.unwrap() - 500.0).abs() < 5.0, "{last:?}");
    }

    #[test]
    fn one_engine_is_added_above_the_target_and_removed_well_below_it() {
        let mut dynamo = DynamoPolicy::new(10.0, Duration::from_secs(1), None);
        let target = Duration::from_secs(2);
        for second in 0..30 {
            dynamo.rates.add(Duration::from_secs(second), 25.0);
        }
        assert_eq!(dynamo.by_load(target, 0.0, 3), 3);
        assert_eq!(dynamo.by_load(target, 100.0, 3), 4);
        assert_eq!(dynamo.by_load(target, 0.0, 6), 5);
    }
}

//! Measured times by the concurrency of a replica.

use std::time::Duration;

/// Times by the concurrency of a replica. The time grows about linearly with it, whether the replica batches, serves
/// requests one by one or all at once: `fixed + each × n`.
///
/// Measurements of a full replica must survive times with little load, and must follow a service that has become slower
/// or faster. Therefore all points are relative to one pace: every measurement at a known point moves the pace quickly,
/// and with it all points.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Points {
    /// Points in the order of their buckets. There are few, and all are read in every second.
    points: Vec<Point>,
    /// Present times relative to the times of the points.
    pace: f64,
    /// Number of requests that determine the pace, at most [`QUICK`].
    weight: f64,
    /// Number of requests measured so far.
    completed: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    /// Bucket of the concurrency: four for each doubling.
    bucket: i32,
    /// Mean concurrency of the requests.
    at_once: f64,
    /// Service time in seconds, at a pace of one.
    seconds: f64,
    /// Number of requests that determine the point, at most [`TRUSTED`]; halved by [`FORGOTTEN`] measurements
    /// elsewhere.
    weight: f64,
}

/// Least measurements before replicas are calculated from them: the first request of a replica is often slow.
const FEWEST: u64 = 3;

/// The pace moves halfway after this many new requests. Thirty average out the variation of similar requests, and
/// follow a change within seconds; of dissimilar requests, more are needed.
const QUICK: f64 = 30.0;

/// A point moves halfway after this many new requests. It is much slower than the pace, which should absorb changes
/// that concern all points.
const TRUSTED: f64 = 6000.0;

/// Most requests that one sample counts for: they are of the same second, and much alike.
const ONE_SAMPLE: f64 = 20.0;

/// Measurements elsewhere after which a point has half its weight in the line: some hours at one per second.
const FORGOTTEN: f64 = 10_000.0;

/// Requests after which a point is known well enough to move the pace in full. The first requests at a new point may
/// belong to a load that is rising or falling.
const SURE: f64 = 200.0;

/// Largest ratio of concurrencies at which a point is used directly. A replica with fewer requests may have been idle
/// some of the time.
const NEAR: f64 = 1.05;

impl Points {
    /// Adds `count` requests with this mean time at this concurrency. `varied` is how many times more requests are
    /// needed for a reliable mean than if all were alike.
    pub(super) fn add(&mut self, at_once: f64, mean: Duration, count: u64, varied: f64) {
        // A service that takes no time would have infinite capacity.
        let seconds = mean.as_secs_f64().max(1e-6);
        self.completed = self.completed.saturating_add(count);
        let count = (count as f64 / varied).min(ONE_SAMPLE);
        let bucket = (4.0 * at_once.log2()).round() as i32;
        let place = self.points.binary_search_by_key(&bucket, |point| point.bucket);
        if let Ok(index) = place {
            let known = self.points[index];
            let sure = (known.weight / SURE).min(1.0);
            self.follow(seconds / known.seconds, count * sure);
        }
        self.forget();
        let seconds = seconds / self.pace;
        let index = place.unwrap_or_else(|index| {
            self.points.insert(index, Point { bucket, at_once, seconds, weight: 0.0 });
            index
        });
        let point = &mut self.points[index];
        let share = count / (point.weight + count);
        point.at_once += share * (at_once - point.at_once);
        point.seconds += share * (seconds - point.seconds);
        point.weight = (point.weight + count).min(TRUSTED);
    }

    /// Returns the throughput per second at this concurrency; `None` until it was measured.
    pub(super) fn throughput(&self, at_once: f64) -> Option<f64> {
        if self.completed < FEWEST {
            return None;
        }
        // A measured point takes precedence over the fitted line.
        let seconds = match self.near(at_once) {
            Some(point) => point.seconds * at_once / point.at_once,
            None => {
                let (fixed, each) = self.line()?;
                fixed + each * at_once
            }
        };
        Some(at_once / (seconds * self.pace))
    }

    /// Returns the point closest to this concurrency, if one is close enough.
    fn near(&self, at_once: f64) -> Option<&Point> {
        // The concurrency rises from point to point, so only the two around it can be the closest.
        let above = self.points.partition_point(|point| point.at_once < at_once);
        let around = self.points[above.saturating_sub(1)..].iter().take(2);
        let ratio = |point: &Point| (point.at_once / at_once).max(at_once / point.at_once);
        let near = around.filter(|point| ratio(point) <= NEAR);
        near.min_by(|a, b| ratio(a).total_cmp(&ratio(b)))
    }

    /// Returns the same points, whose pace the first measurements set again.
    pub(super) fn successor(&self) -> Self {
        Self { weight: 0.0, ..self.clone() }
    }

    fn follow(&mut self, pace: f64, count: f64) {
        let share = count / (self.weight + count);
        self.pace += share * (pace - self.pace);
        self.pace = self.pace.clamp(1e-6, 1e6);
        self.weight = (self.weight + count).min(QUICK);
    }

    fn forget(&mut self) {
        let kept = 0.5_f64.powf(1.0 / FORGOTTEN);
        for point in &mut self.points {
            // The weight never becomes zero, because there may be no better point.
            point.weight = (point.weight * kept).max(1e-3);
        }
    }

    /// Fits a line by weighted least squares; neither part is negative. If the points are close to each other the line
    /// is flat, because they do not show what more concurrency costs.
    fn line(&self) -> Option<(f64, f64)> {
        let [weight, at_once, seconds] = self.totals(|p| [1.0, p.at_once, p.seconds]);
        if weight <= 0.0 {
            return None;
        }
        let (x, y) = (at_once / weight, seconds / weight);
        let [spread, along] = self.totals(|p| [(p.at_once - x).powi(2), (p.at_once - x) * (p.seconds - y)]);
        let slope = along / spread;
        if !self.is_wide() || slope <= 0.0 {
            return Some((y, 0.0));
        }
        let fixed = y - slope * x;
        if fixed >= 0.0 {
            return Some((fixed, slope));
        }
        let [along, spread] = self.totals(|p| [p.at_once * p.seconds, p.at_once.powi(2)]);
        Some((0.0, along / spread))
    }

    /// Returns true if one point has twice the concurrency of another. With less, the slope is noise.
    fn is_wide(&self) -> bool {
        match self.points.as_slice() {
            [least, .., most] => most.at_once >= 2.0 * least.at_once,
            _ => false,
        }
    }

    /// Returns the sums of these over all points, by their weights, in one pass.
    fn totals<const N: usize>(&self, of: impl Fn(&Point) -> [f64; N]) -> [f64; N] {
        let mut totals = [0.0; N];
        for point in &self.points {
            for (total, value) in totals.iter_mut().zip(of(point)) {
                *total += point.weight * value;
            }
        }
        totals
    }
}

impl Default for Points {
    fn default() -> Self {
        Self { points: Vec::new(), pace: 1.0, weight: 0.0, completed: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns points of (concurrency, milliseconds), each measured many times.
    fn points(measured: &[(f64, u64)]) -> Points {
        let mut points = Points::default();
        for (at_once, ms) in measured {
            add(&mut points, *at_once, *ms, 100);
        }
        points
    }

    fn add(points: &mut Points, at_once: f64, ms: u64, times: u32) {
        for _ in 0..times {
            points.add(at_once, Duration::from_millis(ms), 20, 1.0);
        }
    }

    fn throughput(measured: &[(f64, u64)], at_once: f64) -> f64 {
        let throughput = points(measured).throughput(at_once).unwrap();
        (throughput * 1000.0).round() / 1000.0
    }

    #[test]
    fn a_replica_that_serves_one_at_a_time() {
        assert_eq!(throughput(&[(1.0, 100)], 1.0), 10.0);
    }

    #[test]
    fn a_replica_that_serves_all_at_once() {
        assert_eq!(throughput(&[(1.0, 100), (4.0, 100)], 8.0), 80.0);
    }

    #[test]
    fn a_replica_that_serves_in_turn_at_any_concurrency() {
        assert_eq!(throughput(&[(1.0, 100), (4.0, 400)], 8.0), 10.0);
    }

    #[test]
    fn a_replica_that_batches() {
        // 60 ms for the batch and 10 ms for each request in it.
        assert_eq!(throughput(&[(1.0, 70), (4.0, 100)], 8.0), 57.143);
    }

    #[test]
    fn a_measured_full_replica_takes_precedence_over_the_line() {
        assert_eq!(throughput(&[(1.0, 10), (2.0, 10), (8.0, 400)], 8.0), 20.0);
    }

    #[test]
    fn the_first_measurements_of_a_new_point_do_not_move_the_others() {
        let mut points = points(&[(1.0, 200), (4.0, 200)]);
        // While the load rises, the first requests to end shared the replica with few others; later ones shared it with
        // many.
        add(&mut points, 64.0, 500, 1);
        add(&mut points, 64.0, 3200, 3);
        let known = points.throughput(4.0).unwrap();
        assert!((12.0..=20.0).contains(&known), "{known}");
    }

    #[test]
    fn two_measurements_are_not_enough() {
        let mut points = Points::default();
        points.add(1.0, Duration::from_secs(1), 2, 1.0);
        assert_eq!(points.throughput(1.0), None);
    }

    #[test]
    fn a_slower_service_is_slower_at_every_load_until_it_recovers() {
        let mut points = points(&[(1.0, 70), (4.0, 100), (8.0, 140)]);
        let well = points.throughput(8.0).unwrap();
        // Only the present load is measured, and the pace moves all points.
        add(&mut points, 4.0, 300, 12);
        let slow = points.throughput(8.0).unwrap();
        assert!((slow * 3.0 / well - 1.0).abs() < 0.05, "{slow} for {well}");
        add(&mut points, 1.0, 70, 12);
        let again = points.throughput(8.0).unwrap();
        assert!((again / well - 1.0).abs() < 0.05, "{again} for {well}");
    }

    #[test]
    fn the_successor_of_a_slow_revision_follows_its_own_measurements() {
        let mut points = points(&[(1.0, 70), (8.0, 140)]);
        let well = points.throughput(8.0).unwrap();
        add(&mut points, 8.0, 420, 100);
        let mut next = points.successor();
        add(&mut next, 1.0, 70, 1);
        let again = next.throughput(8.0).unwrap();
        assert!((again / well - 1.0).abs() < 0.05, "{again} for {well}");
    }

    #[test]
    fn zero_and_endless_times_have_a_throughput() {
        for time in [Duration::ZERO, Duration::MAX] {
            let mut points = Points::default();
            for at_once in [1.0, 1e9] {
                points.add(at_once, time, u64::MAX, 1.0);
            }
            let throughput = points.throughput(8.0).unwrap();
            assert!(throughput.is_finite() && throughput > 0.0, "{throughput}");
        }
    }
}

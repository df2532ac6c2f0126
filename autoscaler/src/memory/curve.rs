//! The measured service curve of one replica.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::{Coverage, Sample};

/// How long a replica takes for a request, by how many it has at once. The time grows with them about
/// linearly, whether the replica batches, works them off one by one, or all at once: `fixed + each × n`.
/// Every number at once keeps what was last measured of it, so what is known of a full replica is not
/// forgotten while replicas are idle: the capacity that follows does not depend on how many there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve {
    /// By the number at once, two buckets for each doubling.
    points: BTreeMap<i32, Point>,
    /// Requests measured so far.
    completed: u64,
    /// How many a replica takes at once, as the gateways last said.
    credits: Option<f64>,
    previous: Option<Observed>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    /// Requests at one replica at once.
    at_once: f64,
    /// Seconds that one takes.
    seconds: f64,
    /// Requests that this rests on, at most [`TRUSTED`].
    weight: f64,
}

/// The part of a sample that the curve keeps until the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Observed {
    ready: u32,
    in_flight: u32,
}

/// Fewer measurements than this are no ground to start replicas on: the first request of a replica is
/// often slow.
const FEWEST: u64 = 3;

/// A point that rests on as many moves by a half when as many new ones come. Twenty average out the
/// variety of requests and follow a change within seconds.
const TRUSTED: f64 = 20.0;

/// Requests at once before the first replica was ready and a gateway could say: a small batch.
const ASSUMED: f64 = 8.0;

impl Curve {
    /// Takes in what the sample measured.
    pub(crate) fn observe(&mut self, sample: &Sample) {
        let activity = &sample.load.activity;
        let now = Observed {
            ready: sample.replicas.ready,
            in_flight: activity.in_flight,
        };
        let before = self.previous.replace(now);
        self.observe_credits(before, sample);
        let Some(before) = before.filter(|last| last.ready == now.ready && now.ready > 0) else {
            return; // The load of one replica is not known while their number changes.
        };
        let ready = f64::from(now.ready);
        let at_once = f64::from(before.in_flight + now.in_flight) / 2.0 / ready;
        let count = activity.service_time.count();
        if let Some(mean) = activity.service_time.mean() {
            // A request that is there is itself at the replica.
            self.add(at_once.max(1.0), mean, count);
        }
    }

    /// Requests that a replica takes at once; what the service declares goes before what gateways report.
    pub(crate) fn credits(&self, declared: Option<u32>) -> f64 {
        match declared {
            Some(credits) => f64::from(credits.max(1)),
            None => self.credits.unwrap_or(ASSUMED),
        }
    }

    /// Requests per second that a replica can do, with so many at once; unset until it was measured.
    pub(crate) fn capacity(&self, at_once: f64) -> Option<f64> {
        if self.completed < FEWEST {
            return None;
        }
        let (fixed, each) = self.line()?;
        let fitted = at_once / (fixed + each * at_once);
        let measured = self.points.values().next_back().copied();
        // The measured throughput of a full replica goes before any line.
        let measured = measured.filter(|point| point.at_once >= 0.8 * at_once);
        let measured = measured.map_or(f64::INFINITY, |point| point.at_once / point.seconds);
        Some(fitted.min(measured))
    }

    /// Takes in the credits that the gateways report. While the number of replicas changes they
    /// may count others than we do: then it only replaces a guess.
    fn observe_credits(&mut self, before: Option<Observed>, sample: &Sample) {
        let (all, ready) = (sample.load.activity.credits, sample.replicas.ready);
        let is_steady = before.is_some_and(|before| before.ready == ready);
        let counts = is_steady || self.credits.is_none();
        // A gateway that is silent has a share, too.
        if counts && all > 0 && ready > 0 && sample.coverage == Coverage::Complete {
            self.credits = Some((f64::from(all) / f64::from(ready)).max(1.0));
        }
    }

    fn add(&mut self, at_once: f64, mean: Duration, count: u64) {
        // A service that takes no time at all would have a capacity without end.
        let seconds = mean.as_secs_f64().max(1e-6);
        self.completed = self.completed.saturating_add(count);
        let count = count as f64;
        let bucket = (2.0 * at_once.log2()).round() as i32;
        let point = self.points.entry(bucket).or_insert(Point {
            at_once,
            seconds,
            weight: 0.0,
        });
        let share = count / (point.weight + count);
        point.at_once += share * (at_once - point.at_once);
        point.seconds += share * (seconds - point.seconds);
        point.weight = (point.weight + count).min(TRUSTED);
    }

    /// The line through the points with the least squares; neither part is below zero. Points close to
    /// each other give a flat line: what more at once would cost, they do not tell.
    fn line(&self) -> Option<(f64, f64)> {
        let total = |of: &dyn Fn(&Point) -> f64| -> f64 {
            self.points.values().map(|p| p.weight * of(p)).sum()
        };
        let weight = total(&|_| 1.0);
        if weight <= 0.0 {
            return None;
        }
        let (x, y) = (
            total(&|p| p.at_once) / weight,
            total(&|p| p.seconds) / weight,
        );
        let spread = total(&|p| (p.at_once - x).powi(2));
        let slope = total(&|p| (p.at_once - x) * (p.seconds - y)) / spread;
        if !self.is_wide() || slope <= 0.0 {
            return Some((y, 0.0));
        }
        let fixed = y - slope * x;
        if fixed >= 0.0 {
            return Some((fixed, slope));
        }
        let through_zero = total(&|p| p.at_once * p.seconds) / total(&|p| p.at_once.powi(2));
        Some((0.0, through_zero))
    }

    /// Whether one point has twice as many at once as another: with less between them, the slope is noise.
    fn is_wide(&self) -> bool {
        let mut points = self.points.values().map(|point| point.at_once);
        let least = points.next();
        let most = points.next_back();
        least
            .zip(most)
            .is_some_and(|(least, most)| most >= 2.0 * least)
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;
    use crate::{Load, Replicas};

    /// A curve of points (at once, milliseconds).
    fn curve(points: &[(f64, u64)]) -> Curve {
        let mut curve = Curve::default();
        for (at_once, ms) in points {
            curve.add(*at_once, Duration::from_millis(*ms), 20);
        }
        curve
    }

    fn capacity(points: &[(f64, u64)], at_once: f64) -> f64 {
        (curve(points).capacity(at_once).unwrap() * 1000.0).round() / 1000.0
    }

    fn sample(coverage: Coverage, ready: u32, credits: u32) -> Sample {
        let activity = Activity {
            credits,
            ..Activity::default()
        };
        Sample {
            at: Duration::ZERO,
            coverage,
            load: Load {
                span: Duration::ZERO,
                activity,
            },
            replicas: Replicas {
                ready,
                ..Replicas::default()
            },
        }
    }

    #[test]
    fn what_gateways_say_a_replica_takes_is_kept_over_sleep() {
        let mut curve = Curve::default();
        let mut after = |sample| {
            curve.observe(&sample);
            curve.credits(None)
        };
        assert_eq!(after(sample(Coverage::Complete, 0, 0)), ASSUMED);
        assert_eq!(after(sample(Coverage::Complete, 1, 32)), 32.0);
        // The gateways have not met the second yet.
        assert_eq!(after(sample(Coverage::Complete, 2, 32)), 32.0);
        assert_eq!(after(sample(Coverage::Complete, 2, 48)), 24.0);
        assert_eq!(after(sample(Coverage::Partial, 2, 24)), 24.0);
        assert_eq!(after(sample(Coverage::Complete, 0, 0)), 24.0);
        assert_eq!(curve.credits(Some(3)), 3.0);
    }

    #[test]
    fn one_at_a_time() {
        assert_eq!(capacity(&[(1.0, 100)], 1.0), 10.0);
    }

    #[test]
    fn all_at_once() {
        assert_eq!(capacity(&[(1.0, 100), (4.0, 100)], 8.0), 80.0);
    }

    #[test]
    fn one_after_the_other_however_many_are_there() {
        assert_eq!(capacity(&[(1.0, 100), (4.0, 400)], 8.0), 10.0);
    }

    #[test]
    fn in_batches() {
        // 60 ms for the batch and 10 ms for each request of it.
        assert_eq!(capacity(&[(1.0, 70), (4.0, 100)], 8.0), 57.143);
    }

    #[test]
    fn a_full_replica_is_believed_before_the_line() {
        assert_eq!(capacity(&[(1.0, 10), (2.0, 10), (8.0, 400)], 8.0), 20.0);
    }

    #[test]
    fn two_measurements_are_not_enough() {
        let mut curve = Curve::default();
        curve.add(1.0, Duration::from_secs(1), 2);
        assert_eq!(curve.capacity(1.0), None);
    }

    #[test]
    fn a_change_is_followed() {
        let mut curve = curve(&[(1.0, 100)]);
        for _ in 0..10 {
            curve.add(1.0, Duration::from_millis(200), 20);
        }
        let capacity = curve.capacity(1.0).unwrap();
        assert!((capacity - 5.0).abs() < 0.01, "{capacity}");
    }
}

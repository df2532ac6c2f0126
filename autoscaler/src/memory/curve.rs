//! Measured service curve of one replica.

mod points;
mod variety;

use std::time::Duration;

use weir_cluster::Report;

use self::points::Points;
use self::variety::Variety;
use crate::{Coverage, Sample};

/// Service time of a replica as a function of its load. If replicas report their batches, it is the time of a batch by
/// its size, otherwise the time of a request by the concurrent requests. The capacity that follows does not depend on
/// the number of replicas.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Curve {
    /// Batch times by rows, as replicas report them.
    batches: Points,
    /// Request times by concurrent requests, as gateways measure them.
    requests: Points,
    /// Rows of the batches and number of the requests answered recently.
    rows: f64,
    answered: f64,
    /// Variation of the request times.
    variety: Variety,
    /// Concurrent requests of a replica, as the gateways last reported; None before the first report.
    credits: Option<f64>,
    previous: Option<Observed>,
    /// The latest calculated capacity; `None` if something was measured since.
    calculated: Option<Calculated>,
}

/// Capacity of a replica with this concurrency.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Calculated {
    at_once: f64,
    capacity: Option<f64>,
}

/// Part of a sample that is kept until the next one.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Observed {
    ready: u32,
    in_flight: u32,
    /// Number of earlier consecutive samples with the same number of replicas.
    steady: u32,
}

/// Samples, a second apart, after which every gateway's report reflects a replica that became ready or left: a report
/// may be that late.
const SETTLED_SAMPLES: u32 = Report::SILENT_AFTER.as_secs() as u32;

/// Concurrent requests that are assumed before a gateway reported: a small batch.
const ASSUMED: f64 = 8.0;

/// Number of requests over which the rows per request are averaged.
const AVERAGED: f64 = 1000.0;

impl Curve {
    /// Adds the measurements of the sample.
    pub(crate) fn observe(&mut self, sample: &Sample) {
        let activity = &sample.load.activity;
        let ready = sample.replicas.ready;
        let same = self.previous.filter(|before| before.ready == ready);
        let now = Observed {
            ready,
            in_flight: activity.in_flight,
            steady: same.map_or(0, |before| before.steady.saturating_add(1)),
        };
        let before = self.previous.replace(now);
        let count = self.variety.observe(&activity.service_time);
        self.observe_credits(now, sample);
        if count > 0 || activity.batches.iter().next().is_some() {
            self.calculated = None;
        }
        self.observe_batches(sample, count);
        let Some(before) = before.filter(|last| last.ready == now.ready && now.ready > 0) else {
            return; // The load of one replica is unknown while the number of replicas changes.
        };
        let ready = f64::from(now.ready);
        let at_once = f64::from(before.in_flight + now.in_flight) / 2.0 / ready;
        if let Some(mean) = activity.service_time.sum_us().checked_div(count).map(Duration::from_micros) {
            let times = self.variety.times();
            // A request that ended was itself in flight, so the concurrency is at least one.
            self.requests.add(at_once.max(1.0), mean, count, times);
        }
    }

    /// Returns the concurrent requests of a replica; a number that the service declares takes precedence over the
    /// gateways' reports.
    pub(crate) fn credits(&self, declared: Option<u32>) -> f64 {
        match declared {
            Some(credits) => f64::from(credits.max(1)),
            None => self.credits.unwrap_or(ASSUMED),
        }
    }

    /// Returns the requests per second that a replica can serve with this concurrency; `None` until it was measured.
    pub(crate) fn capacity(&mut self, at_once: f64) -> Option<f64> {
        match self.calculated {
            Some(known) if known.at_once == at_once => known.capacity,
            _ => {
                let capacity = self.calculate(at_once);
                self.calculated = Some(Calculated { at_once, capacity });
                capacity
            }
        }
    }

    fn calculate(&self, at_once: f64) -> Option<f64> {
        let rows = self.rows_per_request();
        match self.batches.throughput(at_once * rows) {
            Some(throughput) => Some(throughput / rows),
            None => self.requests.throughput(at_once),
        }
    }

    /// Returns the curve with which the next revision starts: the same shape, which its first measurements scale.
    pub(crate) fn successor(&self) -> Self {
        Self { batches: self.batches.successor(), requests: self.requests.successor(), previous: None, ..self.clone() }
    }

    fn rows_per_request(&self) -> f64 {
        match self.answered {
            0.0 => 1.0,
            answered => (self.rows / answered).max(1e-3),
        }
    }

    fn observe_batches(&mut self, sample: &Sample, answered: u64) {
        let activity = &sample.load.activity;
        let varied = self.variety.times();
        for (_, times) in activity.batches.iter().filter(|(_, t)| t.count > 0) {
            let size = times.rows as f64 / times.count as f64;
            let took = Duration::from_micros(times.total_us / times.count);
            self.batches.add(size.max(1.0), took, times.rows, varied);
            self.rows += times.rows as f64;
        }
        if self.rows > 0.0 {
            self.answered += answered as f64;
        }
        if self.answered > AVERAGED {
            self.rows *= AVERAGED / self.answered;
            self.answered = AVERAGED;
        }
    }

    /// Updates the credits from the gateways' reports. For some seconds after the number of replicas changed, the
    /// gateways may count other replicas than the snapshot; then the reports only replace the assumed value.
    fn observe_credits(&mut self, now: Observed, sample: &Sample) {
        let (all, ready) = (sample.load.activity.credits, now.ready);
        let counts = now.steady >= SETTLED_SAMPLES || self.credits.is_none();
        // A silent gateway holds a share of the credits as well.
        if counts && all > 0 && ready > 0 && sample.coverage == Coverage::Complete {
            self.credits = Some((f64::from(all) / f64::from(ready)).max(1.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_cluster::{Activity, Batches};

    use super::*;
    use crate::{Load, Replicas};

    fn sample(coverage: Coverage, ready: u32, activity: Activity) -> Sample {
        Sample {
            at: Duration::ZERO,
            coverage,
            load: Load { span: Duration::ZERO, activity },
            replicas: Replicas { ready, ..Replicas::default() },
        }
    }

    #[test]
    fn reported_credits_are_kept_while_the_revision_sleeps() {
        let mut curve = Curve::default();
        let mut after = |coverage, ready, credits| {
            let activity = Activity { credits, ..Activity::default() };
            curve.observe(&sample(coverage, ready, activity));
            curve.credits(None)
        };
        assert_eq!(after(Coverage::Complete, 0, 0), ASSUMED);
        assert_eq!(after(Coverage::Complete, 1, 32), 32.0);
        // The gateways do not know the second replica yet, or their reports are late.
        for _ in 0..SETTLED_SAMPLES {
            assert_eq!(after(Coverage::Complete, 2, 32), 32.0);
        }
        assert_eq!(after(Coverage::Complete, 2, 48), 24.0);
        assert_eq!(after(Coverage::Partial, 2, 24), 24.0);
        assert_eq!(after(Coverage::Complete, 0, 0), 24.0);
        assert_eq!(curve.credits(Some(3)), 3.0);
    }

    /// A second in which requests with this number of rows each were answered, in batches of 2 and of 8 rows.
    fn second(rows: u32) -> Activity {
        let mut activity = Activity::default();
        let mut batches = Batches::default();
        for size in [2, 8] {
            let took = Duration::from_millis(400 + 100 * u64::from(size));
            batches.record(size, took);
            for _ in 0..size / rows {
                activity.service_time.record(took);
            }
        }
        activity.batches = batches;
        activity
    }

    #[test]
    fn reported_batches_take_precedence_over_request_times() {
        let mut curve = Curve::default();
        for _ in 0..100 {
            curve.observe(&sample(Coverage::Complete, 3, second(1)));
        }
        let capacity = curve.capacity(8.0).unwrap();
        assert!((capacity - 8.0 / 1.2).abs() < 0.01, "{capacity}");
    }

    #[test]
    fn a_request_of_two_rows_counts_as_two() {
        let mut curve = Curve::default();
        for _ in 0..100 {
            curve.observe(&sample(Coverage::Complete, 3, second(2)));
        }
        // Four concurrent requests are eight rows.
        let capacity = curve.capacity(4.0).unwrap();
        assert!((capacity - 4.0 / 1.2).abs() < 0.01, "{capacity}");
    }
}

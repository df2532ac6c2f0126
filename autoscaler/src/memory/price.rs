//! What a start is worth beyond its own time: the requests that wait for it.

use std::time::Duration;

/// How many times its own length a start is worth, so that as many requests as the policy says are in time. It
/// moves slowly: a start must show its effect before the next step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Price {
    /// Unset before the first request.
    logarithm: Option<f64>,
    /// Requests of the latest starts' time.
    requests: f64,
}

impl Price {
    /// Takes in the requests of the time since the last sample.
    pub(crate) fn observe(&mut self, elapsed: Duration, step: &Step) {
        let logarithm = self.logarithm.get_or_insert(step.first.max(1.0).ln());
        let starts = elapsed.as_secs_f64() / step.cold_start.as_secs_f64().max(1.0);
        let kept = (-starts / AVERAGED).exp();
        self.requests = self.requests * kept + step.requests as f64;
        // The requests of one start.
        let usual = self.requests / AVERAGED;
        if usual <= 0.0 {
            return;
        }
        let late = step.late as f64 / step.allowed.max(1e-3);
        let change = (late - step.requests as f64) / usual * SPEED;
        *logarithm = (*logarithm + change.clamp(-0.5, 0.5)).clamp(0.0, step.most.max(1.0).ln());
    }

    /// What a start is worth, in lengths of a start: at least 1, its own time.
    pub(crate) fn starts(&self, first: f64) -> f64 {
        self.logarithm.map_or(first, f64::exp)
    }
}

/// The requests since the last sample, and the bounds of the price.
pub(crate) struct Step {
    pub(crate) requests: u64,
    /// Those that waited longer than the target.
    pub(crate) late: u64,
    /// The share of the requests that may.
    pub(crate) allowed: f64,
    pub(crate) cold_start: Duration,
    /// The price before anything was seen, and the highest.
    pub(crate) first: f64,
    pub(crate) most: f64,
}

/// Starts over which the requests of one are averaged.
const AVERAGED: f64 = 10.0;

/// The price falls by e in the time of 33 starts in which no request was late, and rises by e when as many are late as
/// may be in that time.
const SPEED: f64 = 0.03;

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(60);

    /// What a start is worth after so many of its lengths with 10 requests each, of which this many were late.
    fn after(starts: u32, late: u64) -> f64 {
        let mut price = Price::default();
        for _ in 0..starts {
            price
                .observe(START, &Step { requests: 10, late, allowed: 0.01, cold_start: START, first: 3.0, most: 30.0 });
        }
        price.starts(3.0)
    }

    #[test]
    fn it_is_worth_its_own_time_where_nobody_waits() {
        assert_eq!(after(0, 0), 3.0);
        assert_eq!(after(500, 0), 1.0);
    }

    #[test]
    fn it_is_worth_the_more_the_more_wait_up_to_the_policys_bound() {
        assert!(after(1, 1) > 3.0);
        assert!((after(500, 1) - 30.0).abs() < 1e-9);
    }
}

//! Learned worth of avoiding a cold start, which exceeds the cold-start time itself because requests wait for the
//! start. It is no amount of money.

use std::time::Duration;

use weir_cluster::Economy;

/// Worth of avoiding a cold start, as a multiple of the cold-start time, adjusted so that the policy's share of
/// requests is in time. It changes slowly, because the effect of a change shows only after a start has ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct StartWorth {
    /// Logarithm of the worth; `None` before the first request.
    logarithm: Option<f64>,
    /// The worth for this logarithm; meaningless before the first request.
    worth: f64,
    /// Highest worth of the last sample, and its logarithm.
    most: (f64, f64),
    /// Decaying count of requests, which remembers about [`AVERAGED`] cold-start times.
    requests: f64,
}

impl StartWorth {
    /// Learns from the requests since the last sample.
    pub(crate) fn observe(&mut self, elapsed: Duration, sample: &StartSample) {
        let logarithm = self.logarithm.unwrap_or_else(|| sample.first.max(1.0).ln());
        self.set(logarithm);
        if self.requests <= 0.0 && sample.requests == 0 {
            return;
        }
        let starts = elapsed.as_secs_f64() / sample.cold_start.as_secs_f64().max(1.0);
        let kept = (-starts / AVERAGED).exp();
        self.requests = self.requests * kept + sample.requests as f64;
        // Mean number of requests within one cold-start time.
        let usual = self.requests / AVERAGED;
        if usual <= 0.0 {
            return;
        }
        let late = sample.late as f64 / sample.allowed.max(1e-3);
        let change = (late - sample.requests as f64) / usual * SPEED;
        if self.most.0 != sample.most {
            self.most = (sample.most, sample.most.max(1.0).ln());
        }
        self.set((logarithm + change.clamp(-0.5, 0.5)).clamp(0.0, self.most.1));
    }

    /// Sets the logarithm. It stays the same in most seconds without requests, and the exponential is then not
    /// calculated again.
    fn set(&mut self, logarithm: f64) {
        if self.logarithm != Some(logarithm) {
            (self.logarithm, self.worth) = (Some(logarithm), logarithm.exp());
        }
    }

    /// Returns the worth of avoiding a cold start, as a multiple of the cold-start time: at least 1, or `first` before
    /// any request.
    pub(crate) fn starts(&self, first: f64) -> f64 {
        self.logarithm.map_or(first, |_| self.worth)
    }
}

/// Requests since the last sample, and the initial and the highest worth of a start.
pub(crate) struct StartSample {
    pub(crate) requests: u64,
    /// Requests that waited longer than the target.
    pub(crate) late: u64,
    /// Share of the requests that may be late.
    pub(crate) allowed: f64,
    pub(crate) cold_start: Duration,
    /// Worth before any request, and the highest worth.
    pub(crate) first: f64,
    pub(crate) most: f64,
}

/// Number of cold-start times over which the requests per cold-start time are averaged.
const AVERAGED: f64 = 10.0;

/// Speed at which the worth changes. Within 33 cold-start times the worth falls by a factor of e if no request is late,
/// stays the same if exactly the allowed share is late, and rises by e if twice that share is late.
const SPEED: f64 = 0.03;

/// Returns the worth of avoiding a cold start, as a multiple of the cold-start time, before it is known how often
/// requests wait for one. With 1, an idle replica is kept for as long as a start takes, so the GPU time, starts
/// included, is at most twice that of an autoscaler that knows the future. A higher value pays for shorter waits.
pub(crate) fn starts(economy: Economy) -> f64 {
    match economy {
        Economy::Economy => 1.0,
        Economy::Balanced => 3.0,
        Economy::Latency => 10.0,
    }
}

/// Returns the highest worth of avoiding a cold start, as a multiple of the cold-start time. The factor 5 lets even a
/// replica that is needed for only a fifth of the cold-start time at once be kept for the longest allowed time.
pub(crate) fn most_starts(economy: Economy, cold_start: Duration) -> f64 {
    5.0 * longest(economy).as_secs_f64() / cold_start.as_secs_f64().max(1.0)
}

/// Returns the longest time that an idle replica is kept, however long a start takes.
pub(crate) fn longest(economy: Economy) -> Duration {
    match economy {
        Economy::Economy => Duration::from_secs(5 * 60),
        Economy::Balanced => Duration::from_secs(30 * 60),
        Economy::Latency => Duration::from_secs(4 * 60 * 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Duration = Duration::from_secs(60);

    /// Returns the worth of a start after this many starts with 10 requests each, of which `late` were late.
    fn after(starts: u32, late: u64) -> f64 {
        let mut worth = StartWorth::default();
        for _ in 0..starts {
            worth.observe(
                START,
                &StartSample { requests: 10, late, allowed: 0.01, cold_start: START, first: 3.0, most: 30.0 },
            );
        }
        worth.starts(3.0)
    }

    #[test]
    fn a_start_is_worth_its_own_time_without_late_requests() {
        assert_eq!(after(0, 0), 3.0);
        assert_eq!(after(500, 0), 1.0);
    }

    #[test]
    fn the_worth_grows_with_late_requests_up_to_the_bound() {
        assert!(after(1, 1) > 3.0);
        assert!((after(500, 1) - 30.0).abs() < 1e-9);
    }
}

//! Room for irregular arrivals, as it turned out to be enough.

use std::time::Duration;

/// How much more room than one standard deviation of a Poisson load replicas need, so that as many requests as
/// the policy says are in time while none starts. It depends on how arrivals and service times vary, which nobody
/// says: so it grows when requests are late and shrinks while none is.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Headroom {
    logarithm: f64,
}

/// The requests since the last sample, all replicas being up that should be.
pub(crate) struct Settled {
    pub(crate) elapsed: Duration,
    pub(crate) requests: u64,
    /// Those that waited longer than the target.
    pub(crate) late: u64,
    /// The share of the requests that may.
    pub(crate) allowed: f64,
    pub(crate) cold_start: Duration,
}

/// Before anything was seen: half a deviation keeps the queue of Poisson arrivals under a second or two at batches of
/// some tenths of a second, and requests of people come in clumps.
const FIRST: f64 = 0.8;

const LEAST: f64 = 0.25;
const MOST: f64 = 4.0;

/// Without late requests the room shrinks by e in no fewer requests, and no fewer starts. Late requests come in clumps
/// of hundreds, so that only hundreds of thousands tell how many there are in the long run.
const REQUESTS: f64 = 400_000.0;
const STARTS: f64 = 100.0;

impl Headroom {
    /// Takes in the requests since the last sample.
    pub(crate) fn observe(&mut self, settled: &Settled) {
        if settled.requests == 0 {
            return;
        }
        let requests = settled.requests as f64;
        let late = settled.late as f64 / settled.allowed.max(1e-6);
        let starts = settled.elapsed.as_secs_f64() / settled.cold_start.as_secs_f64().max(1.0);
        let weight = (1.0 / REQUESTS).min(starts / STARTS / requests);
        let change = (late - requests) * weight;
        self.logarithm = (self.logarithm + change.min(0.1)).clamp(LEAST.ln(), MOST.ln());
    }

    /// The room, in standard deviations.
    pub(crate) fn deviations(&self) -> f64 {
        self.logarithm.exp()
    }
}

impl Default for Headroom {
    fn default() -> Self {
        Self { logarithm: FIRST.ln() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The room after so many minutes of 10 requests per second, of which this share was late.
    fn after(minutes: u32, late: f64) -> f64 {
        let mut headroom = Headroom::default();
        for _ in 0..minutes {
            headroom.observe(&Settled {
                elapsed: Duration::from_secs(60),
                requests: 600,
                late: (600.0 * late) as u64,
                allowed: 0.01,
                cold_start: Duration::from_secs(60),
            });
        }
        headroom.deviations()
    }

    #[test]
    fn it_grows_while_more_are_late_than_may_be() {
        assert!((after(30, 0.01) - FIRST).abs() < 0.01);
        assert!(after(30, 0.2) > 1.5);
        assert!(after(600, 0.02) > 1.5);
        assert!(after(600, 0.0) < 0.4);
    }

    #[test]
    fn it_has_bounds() {
        assert!((after(10_000, 1.0) - MOST).abs() < 1e-9);
        assert!((after(10_000, 0.0) - LEAST).abs() < 1e-9);
    }
}

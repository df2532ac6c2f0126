//! Headroom for irregular arrivals, learned from late requests.

use std::time::Duration;

/// Headroom in standard deviations of a Poisson load, so that the policy's share of requests is in time while no
/// replica starts. The headroom needed depends on how arrivals and service times vary, which is not known. It therefore
/// grows when requests are late and shrinks while none are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Headroom {
    logarithm: f64,
    /// The headroom for this logarithm.
    deviations: f64,
}

/// Requests since the last sample, at a time when enough replicas were ready.
pub(crate) struct HeadroomSample {
    pub(crate) elapsed: Duration,
    pub(crate) requests: u64,
    /// Requests that waited longer than the target.
    pub(crate) late: u64,
    /// Share of the requests that may be late.
    pub(crate) allowed: f64,
    pub(crate) cold_start: Duration,
}

/// Initial headroom. Half a deviation keeps the queue of Poisson arrivals below a second or two with batches of some
/// tenths of a second; it is more because requests of people come in bursts.
const FIRST: f64 = 0.8;

const LEAST: f64 = 0.25;
const MOST: f64 = 4.0;

/// Least number of requests and of starts in which the headroom shrinks by a factor of e without late requests. Late
/// requests come in bursts of hundreds, so only hundreds of thousands of requests show the long-term share.
const REQUESTS: f64 = 400_000.0;
const STARTS: f64 = 100.0;

impl Headroom {
    /// Learns from the requests since the last sample.
    pub(crate) fn observe(&mut self, sample: &HeadroomSample) {
        if sample.requests == 0 {
            return;
        }
        let requests = sample.requests as f64;
        let late = sample.late as f64 / sample.allowed.max(1e-6);
        let starts = sample.elapsed.as_secs_f64() / sample.cold_start.as_secs_f64().max(1.0);
        let weight = (1.0 / REQUESTS).min(starts / STARTS / requests);
        let change = (late - requests) * weight;
        self.logarithm = (self.logarithm + change.min(0.1)).clamp(LEAST.ln(), MOST.ln());
        self.deviations = self.logarithm.exp();
    }

    /// Returns the headroom in standard deviations.
    pub(crate) fn deviations(&self) -> f64 {
        self.deviations
    }
}

impl Default for Headroom {
    fn default() -> Self {
        Self { logarithm: FIRST.ln(), deviations: FIRST.ln().exp() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the headroom after this many minutes with 10 requests per second, of which this share was late.
    fn after(minutes: u32, late: f64) -> f64 {
        let mut headroom = Headroom::default();
        for _ in 0..minutes {
            headroom.observe(&HeadroomSample {
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
    fn headroom_grows_while_too_many_requests_are_late() {
        assert!((after(30, 0.01) - FIRST).abs() < 0.01);
        assert!(after(30, 0.2) > 1.5);
        assert!(after(600, 0.02) > 1.5);
        assert!(after(600, 0.0) < 0.4);
    }

    #[test]
    fn headroom_has_bounds() {
        assert!((after(10_000, 1.0) - MOST).abs() < 1e-9);
        assert!((after(10_000, 0.0) - LEAST).abs() < 1e-9);
    }
}

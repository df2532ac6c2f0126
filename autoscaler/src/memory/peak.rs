//! Highest recent rate of requests.

use std::time::Duration;

/// Highest rate, in requests per second, decaying towards the current rate. It limits the predicted growth to what the
/// service has had before.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Peak {
    rate: f64,
}

/// Starts in which the distance to the current rate decays by a factor of e.
const FADES: f64 = 200.0;

impl Peak {
    /// Updates the peak with the rate after this time.
    pub(crate) fn observe(&mut self, elapsed: Duration, rate: f64, cold_start: Duration) {
        if rate >= self.rate {
            self.rate = rate;
            return;
        }
        let starts = elapsed.as_secs_f64() / cold_start.as_secs_f64().max(1.0);
        let left = (self.rate - rate) * (-starts / FADES).exp();
        self.rate = rate + left;
    }

    /// Returns the highest rate, in requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_peak_rises_at_once_and_decays() {
        let mut peak = Peak::default();
        peak.observe(SECOND, 30.0, 60 * SECOND);
        assert_eq!(peak.rate(), 30.0);
        peak.observe(60 * SECOND, 0.0, 60 * SECOND);
        assert!((29.8..30.0).contains(&peak.rate()), "{}", peak.rate());
        peak.observe(200 * 60 * SECOND, 0.0, 60 * SECOND);
        assert!((10.9..11.1).contains(&peak.rate()), "{}", peak.rate());
    }

    #[test]
    fn clock_jumps_and_instant_starts_do_no_harm() {
        let mut peak = Peak::default();
        peak.observe(Duration::MAX, 3.0, Duration::ZERO);
        peak.observe(Duration::ZERO, 1.0, Duration::ZERO);
        assert_eq!(peak.rate(), 3.0);
    }
}

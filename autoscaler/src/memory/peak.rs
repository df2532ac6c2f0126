//! The highest rate that was seen, some time ago or now.

use std::time::Duration;

/// The highest rate, in requests per second, which fades towards the rate of now: what a service never had is not
/// provided for, however much its load once grew.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Peak {
    rate: f64,
}

/// The distance to the rate of now falls to a third in so many starts.
const FADES: f64 = 200.0;

impl Peak {
    /// Takes in the rate after this time.
    pub(crate) fn observe(&mut self, elapsed: Duration, rate: f64, cold_start: Duration) {
        let starts = elapsed.as_secs_f64() / cold_start.as_secs_f64().max(1.0);
        let left = (self.rate - rate).max(0.0) * (-starts / FADES).exp();
        self.rate = rate + left;
    }

    /// The highest rate, in requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn it_rises_at_once_and_fades() {
        let mut peak = Peak::default();
        peak.observe(SECOND, 30.0, 60 * SECOND);
        assert_eq!(peak.rate(), 30.0);
        peak.observe(60 * SECOND, 0.0, 60 * SECOND);
        assert!((29.8..30.0).contains(&peak.rate()), "{}", peak.rate());
        peak.observe(200 * 60 * SECOND, 0.0, 60 * SECOND);
        assert!((10.9..11.1).contains(&peak.rate()), "{}", peak.rate());
    }

    #[test]
    fn a_clock_that_jumps_and_a_start_of_no_time_are_borne() {
        let mut peak = Peak::default();
        peak.observe(Duration::MAX, 3.0, Duration::ZERO);
        peak.observe(Duration::ZERO, 1.0, Duration::ZERO);
        assert_eq!(peak.rate(), 3.0);
    }
}

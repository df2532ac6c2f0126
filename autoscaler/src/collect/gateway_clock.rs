//! Converts the times of a gateway's reports to the autoscaler's clock.

use std::time::Duration;

use weir_cluster::Report;

/// Offset of a gateway's clock from the autoscaler's. The clocks of two machines cannot be compared directly, but the
/// report that arrived with the least delay shows the offset, except for the network delay, which is a fraction of a
/// millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GatewayClock {
    started: u64,
    /// Time by our clock at which the gateway's age was zero, in microseconds.
    zero_us: i64,
    observed: Duration,
}

/// Most that two clocks drift apart, in microseconds per second; quartz clocks usually drift half as much.
const DRIFT: f64 = 100.0;

impl GatewayClock {
    /// Creates the clock from its first report, which arrived now.
    pub(super) fn new(report: &Report, now: Duration) -> Self {
        Self { started: report.started, zero_us: zero_us(report, now), observed: now }
    }

    /// Updates the clock with a report that arrived now. A restarted gateway gets a new clock.
    pub(super) fn observe(self, report: &Report, now: Duration) -> Self {
        let new = Self::new(report, now);
        if self.started != new.started {
            return new;
        }
        let elapsed = now.saturating_sub(self.observed).as_secs_f64();
        let drifted = self.zero_us.saturating_add((elapsed * DRIFT) as i64);
        Self { zero_us: new.zero_us.min(drifted), ..new }
    }

    /// Returns the time at which a report was made, by our clock; never later than its arrival.
    pub(super) fn made(&self, report: &Report) -> Duration {
        let age = i64::try_from(report.age_us).unwrap_or(i64::MAX);
        let made = self.zero_us.saturating_add(age);
        Duration::from_micros(u64::try_from(made).unwrap_or(0)).min(self.observed)
    }
}

fn zero_us(report: &Report, now: Duration) -> i64 {
    let now = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    now.saturating_sub(i64::try_from(report.age_us).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(started: u64, age_ms: u64) -> Report {
        Report { started, age_us: age_ms * 1000, ..Report::default() }
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_late_report_is_dated_by_the_fastest_one() {
        let clock = GatewayClock::new(&report(1, 90_000), ms(1000));
        assert_eq!(clock.made(&report(1, 90_000)), ms(1000));
        let late = report(1, 91_000);
        let clock = clock.observe(&late, ms(2300));
        let lag = ms(2300) - clock.made(&late);
        assert!(lag > ms(299) && lag <= ms(300), "{lag:?}");
        // This report arrived with less delay than any before.
        let soon = report(1, 92_000);
        let clock = clock.observe(&soon, ms(2900));
        assert_eq!(clock.made(&soon), ms(2900));
    }

    #[test]
    fn a_restarted_gateway_gets_a_new_clock() {
        let clock = GatewayClock::new(&report(1, 90_000), ms(1000));
        let anew = report(2, 10);
        assert_eq!(clock.observe(&anew, ms(5000)).made(&anew), ms(5000));
    }

    #[test]
    fn impossible_ages_do_not_overflow() {
        for age_us in [0, 1, u64::MAX] {
            let odd = Report { age_us, ..Report::default() };
            let clock = GatewayClock::new(&odd, ms(7)).observe(&odd, Duration::MAX);
            assert!(clock.made(&odd) <= Duration::MAX);
        }
    }
}

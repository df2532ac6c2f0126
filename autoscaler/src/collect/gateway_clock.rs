//! When a gateway's reports were made, by our clock.

use std::time::Duration;

use weir_cluster::Report;

/// A gateway's clock beside ours. Clocks of two machines cannot be compared, but reports can: the one that came soonest
/// after it was made says how far the clocks are apart, but for the way itself, which takes a fraction of a millisecond.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GatewayClock {
    started: u64,
    /// Our time at which its age was zero, in microseconds.
    zero_us: i64,
    observed: Duration,
}

/// Two clocks drift apart by no more than this, in microseconds a second: quartz is better by half.
const DRIFT: f64 = 100.0;

impl GatewayClock {
    /// The clock by its first report, which came now.
    pub(super) fn new(report: &Report, now: Duration) -> Self {
        Self { started: report.started, zero_us: zero_us(report, now), observed: now }
    }

    /// The clock with one more report, which came now. A gateway that began anew has another.
    pub(super) fn observe(self, report: &Report, now: Duration) -> Self {
        let new = Self::new(report, now);
        if self.started != new.started {
            return new;
        }
        let elapsed = now.saturating_sub(self.observed).as_secs_f64();
        let drifted = self.zero_us.saturating_add((elapsed * DRIFT) as i64);
        Self { zero_us: new.zero_us.min(drifted), ..new }
    }

    /// When a report was made, by our clock: never after it came.
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
    fn what_comes_late_was_made_when_the_soonest_says() {
        let clock = GatewayClock::new(&report(1, 90_000), ms(1000));
        assert_eq!(clock.made(&report(1, 90_000)), ms(1000));
        let late = report(1, 91_000);
        let clock = clock.observe(&late, ms(2300));
        let lag = ms(2300) - clock.made(&late);
        assert!(lag > ms(299) && lag <= ms(300), "{lag:?}");
        // The next came sooner after it was made than any before.
        let soon = report(1, 92_000);
        let clock = clock.observe(&soon, ms(2900));
        assert_eq!(clock.made(&soon), ms(2900));
    }

    #[test]
    fn a_gateway_that_began_anew_has_another_clock() {
        let clock = GatewayClock::new(&report(1, 90_000), ms(1000));
        let anew = report(2, 10);
        assert_eq!(clock.observe(&anew, ms(5000)).made(&anew), ms(5000));
    }

    #[test]
    fn impossible_ages_are_no_trouble() {
        for age_us in [0, 1, u64::MAX] {
            let odd = Report { age_us, ..Report::default() };
            let clock = GatewayClock::new(&odd, ms(7)).observe(&odd, Duration::MAX);
            assert!(clock.made(&odd) <= Duration::MAX);
        }
    }
}

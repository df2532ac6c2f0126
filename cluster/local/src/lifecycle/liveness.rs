//! Whether a replica that was ready still runs. A value; time is an argument, counted from any moment.

use std::time::Duration;

use super::ProbeResult;

/// Liveness of one run, from its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Liveness {
    period: Duration,
    /// Failed probes in a row after which the replica hangs.
    failure_threshold: u32,
    state: State,
}

/// Whether the run is probed.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Not probed before it was ready: how long a model takes to load is not known.
    Off,
    On {
        /// Time of the last successful probe.
        last_success: Duration,
        /// Time of the last probe.
        last_probe: Duration,
        failures: u32,
    },
}

/// Verdict after a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The replica runs, as far as is known.
    Alive,
    /// No probe has succeeded for so long: the replica hangs.
    Hung(Duration),
}

impl Liveness {
    /// A run that is probed once in `period` and hangs after so many failed probes in a row.
    pub(crate) fn new(period: Duration, failure_threshold: u32) -> Self {
        Self { period, failure_threshold: failure_threshold.max(1), state: State::Off }
    }

    /// Notes that a run began.
    pub(crate) fn started(&mut self) {
        self.state = State::Off;
    }

    /// Notes that it is ready. The first time counts as a successful probe.
    pub(crate) fn ready(&mut self, now: Duration) {
        if self.state == State::Off {
            self.state = State::On { last_success: now, last_probe: now, failures: 0 };
        }
    }

    /// Whether it is time to probe.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        match self.state {
            State::Off => false,
            State::On { last_probe, .. } => now.saturating_sub(last_probe) >= self.period,
        }
    }

    /// Notes the result of a probe.
    pub(crate) fn probed(&mut self, result: ProbeResult, now: Duration) -> Verdict {
        let State::On { last_success, last_probe, failures } = &mut self.state else {
            return Verdict::Alive;
        };
        *last_probe = now;
        match result {
            ProbeResult::Success => (*last_success, *failures) = (now, 0),
            ProbeResult::Failure => *failures = failures.saturating_add(1),
        }
        let silence = now.saturating_sub(*last_success);
        // The machine may have slept: then many periods pass with one probe.
        let limit = self.period.saturating_mul(self.failure_threshold);
        if *failures >= self.failure_threshold && silence >= limit { Verdict::Hung(silence) } else { Verdict::Alive }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn half_a_minute_of_failures_is_a_hang() {
        let mut liveness = Liveness::new(10 * SECOND, 3);
        assert!(!liveness.is_due(Duration::MAX));
        liveness.ready(5 * SECOND);
        assert!(!liveness.is_due(14 * SECOND) && liveness.is_due(15 * SECOND));
        assert_eq!(liveness.probed(ProbeResult::Failure, 15 * SECOND), Verdict::Alive);
        assert_eq!(liveness.probed(ProbeResult::Failure, 25 * SECOND), Verdict::Alive);
        let end = liveness.probed(ProbeResult::Failure, 35 * SECOND);
        assert_eq!(end, Verdict::Hung(30 * SECOND));
        liveness.started();
        assert!(!liveness.is_due(Duration::MAX));
    }

    proptest! {
        #[test]
        fn only_failures_up_to_the_threshold_mean_that_it_hangs(
            failure_threshold in 1_u32..5,
            gaps in proptest::collection::vec((0_u64..40, any::<bool>()), 0..60),
        ) {
            let mut liveness = Liveness::new(10 * SECOND, failure_threshold);
            liveness.ready(Duration::ZERO);
            let (mut now, mut last_success, mut failures) = (Duration::ZERO, Duration::ZERO, 0);
            for (gap, lives) in gaps {
                now += Duration::from_millis(gap * 500);
                if !liveness.is_due(now) {
                    continue;
                }
                let result = if lives { ProbeResult::Success } else { ProbeResult::Failure };
                (last_success, failures) = if lives { (now, 0) } else { (last_success, failures + 1) };
                let verdict = liveness.probed(result, now);
                let is_hung = failures >= failure_threshold;
                let expected = if is_hung { Verdict::Hung(now - last_success) } else { Verdict::Alive };
                prop_assert_eq!(verdict, expected);
                prop_assert!(!is_hung || now - last_success >= failure_threshold * 10 * SECOND);
            }
        }

        #[test]
        fn one_that_was_never_ready_never_hangs(seconds in proptest::collection::vec(0_u64..1000, 0..20)) {
            let mut liveness = Liveness::new(SECOND, 1);
            for second in seconds {
                prop_assert_eq!(liveness.probed(ProbeResult::Failure, Duration::from_secs(second)), Verdict::Alive);
            }
        }
    }
}

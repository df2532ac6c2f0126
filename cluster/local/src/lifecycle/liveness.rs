//! Liveness of a replica as a pure state machine: detects that a replica that was ready hangs. Time is an argument,
//! counted from any origin.

use std::time::Duration;

use super::ProbeResult;

/// Liveness of one run, computed from its probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Liveness {
    period: Duration,
    /// Number of failed probes in a row after which the replica counts as hung.
    failure_threshold: u32,
    /// Time from the start of the program to its first probe.
    initial_delay: Duration,
    /// Earliest time of the next probe.
    earliest: Duration,
    state: State,
}

/// State of the liveness probes of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The run has neither passed a startup probe nor been ready, so it is not probed: the time that a model takes to
    /// load is unknown.
    Off,
    On {
        /// Time of the last successful probe.
        last_success: Duration,
        /// Time of the last probe.
        last_probe: Duration,
        failures: u32,
    },
}

/// Verdict on the replica after a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The replica is alive or not probed yet.
    Alive,
    /// No probe has succeeded for this long: the replica hangs.
    Hung(Duration),
}

impl Liveness {
    /// Creates the liveness state of a program that is probed every `period`, starting `initial_delay` after the
    /// program. The program counts as hung after `failure_threshold` consecutive failed probes.
    pub(crate) fn new(period: Duration, failure_threshold: u32, initial_delay: Duration) -> Self {
        let failure_threshold = failure_threshold.max(1);
        Self { period, failure_threshold, initial_delay, earliest: Duration::ZERO, state: State::Off }
    }

    /// Records that the program was started.
    pub(crate) fn started(&mut self, now: Duration) {
        self.earliest = now.saturating_add(self.initial_delay);
        self.state = State::Off;
    }

    /// Records that the startup probe succeeded or that the replica is ready. The first time counts as a successful
    /// probe.
    pub(crate) fn begin(&mut self, now: Duration) {
        if self.state == State::Off {
            self.state = State::On { last_success: now, last_probe: now, failures: 0 };
        }
    }

    /// Returns true if the next probe is due.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        match self.state {
            State::Off => false,
            State::On { last_probe, .. } => now >= self.earliest && now.saturating_sub(last_probe) >= self.period,
        }
    }

    /// Records the result of a probe and returns the verdict.
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
        // After the machine was suspended, many periods may have passed with a single probe; the number of failures
        // must be reached as well.
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
        let mut liveness = Liveness::new(10 * SECOND, 3, Duration::ZERO);
        assert!(!liveness.is_due(Duration::MAX));
        liveness.begin(5 * SECOND);
        assert!(!liveness.is_due(14 * SECOND) && liveness.is_due(15 * SECOND));
        assert_eq!(liveness.probed(ProbeResult::Failure, 15 * SECOND), Verdict::Alive);
        assert_eq!(liveness.probed(ProbeResult::Failure, 25 * SECOND), Verdict::Alive);
        let end = liveness.probed(ProbeResult::Failure, 35 * SECOND);
        assert_eq!(end, Verdict::Hung(30 * SECOND));
        liveness.started(35 * SECOND);
        assert!(!liveness.is_due(Duration::MAX));
    }

    #[test]
    fn the_first_probe_waits_for_the_initial_delay_of_each_run() {
        let mut liveness = Liveness::new(SECOND, 1, 30 * SECOND);
        for start in [0, 100] {
            liveness.started(start * SECOND);
            liveness.begin((start + 2) * SECOND);
            assert!(!liveness.is_due((start + 29) * SECOND) && liveness.is_due((start + 30) * SECOND));
            liveness.probed(ProbeResult::Success, (start + 30) * SECOND);
            assert!(liveness.is_due((start + 31) * SECOND));
        }
    }

    proptest! {
        #[test]
        fn only_failures_up_to_the_threshold_mean_that_it_hangs(
            failure_threshold in 1_u32..5,
            gaps in proptest::collection::vec((0_u64..40, any::<bool>()), 0..60),
        ) {
            let mut liveness = Liveness::new(10 * SECOND, failure_threshold, Duration::ZERO);
            liveness.begin(Duration::ZERO);
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
        fn a_replica_that_was_never_ready_does_not_count_as_hung(seconds in proptest::collection::vec(0_u64..1000, 0..20)) {
            let mut liveness = Liveness::new(SECOND, 1, Duration::ZERO);
            for second in seconds {
                prop_assert_eq!(liveness.probed(ProbeResult::Failure, Duration::from_secs(second)), Verdict::Alive);
            }
        }
    }
}

//! Whether a replica that was ready still lives. A value; time is an argument, counted from any moment.

use std::time::Duration;

/// Signs of life of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pulse {
    period: Duration,
    /// Bad answers in a row that give it up.
    patience: u32,
    watch: Watch,
}

/// Whether it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Watch {
    /// Not before it was ready: nobody knows how long a model takes to load.
    Off,
    On {
        /// The last sign of life.
        last: Duration,
        /// The last question.
        asked: Duration,
        misses: u32,
    },
}

/// What a replica that was asked for a sign of life gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sign {
    Life,
    Nothing,
}

/// What follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It lives, as far as is known.
    Alive,
    /// It gave no sign of life for so long.
    Hung(Duration),
}

impl Pulse {
    /// Asked once in `period`; so many bad answers in a row give it up.
    pub(crate) fn new(period: Duration, patience: u32) -> Self {
        Self {
            period,
            patience: patience.max(1),
            watch: Watch::Off,
        }
    }

    /// A new run began.
    pub(crate) fn started(&mut self) {
        self.watch = Watch::Off;
    }

    /// It said that it is ready. The first time is a sign of life.
    pub(crate) fn ready(&mut self, now: Duration) {
        if self.watch == Watch::Off {
            self.watch = Watch::On {
                last: now,
                asked: now,
                misses: 0,
            };
        }
    }

    /// Whether it is time to ask.
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        match self.watch {
            Watch::Off => false,
            Watch::On { asked, .. } => now.saturating_sub(asked) >= self.period,
        }
    }

    /// It was asked.
    pub(crate) fn answered(&mut self, sign: Sign, now: Duration) -> Verdict {
        let Watch::On {
            last,
            asked,
            misses,
        } = &mut self.watch
        else {
            return Verdict::Alive;
        };
        *asked = now;
        match sign {
            Sign::Life => (*last, *misses) = (now, 0),
            Sign::Nothing => *misses = misses.saturating_add(1),
        }
        let silence = now.saturating_sub(*last);
        // The machine may have slept: then many periods pass with one question.
        match *misses >= self.patience && silence >= self.period.saturating_mul(self.patience) {
            true => Verdict::Hung(silence),
            false => Verdict::Alive,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn half_a_minute_of_silence_is_the_end() {
        let mut pulse = Pulse::new(10 * SECOND, 3);
        assert!(!pulse.is_due(Duration::MAX));
        pulse.ready(5 * SECOND);
        assert!(!pulse.is_due(14 * SECOND) && pulse.is_due(15 * SECOND));
        assert_eq!(pulse.answered(Sign::Nothing, 15 * SECOND), Verdict::Alive);
        assert_eq!(pulse.answered(Sign::Nothing, 25 * SECOND), Verdict::Alive);
        let end = pulse.answered(Sign::Nothing, 35 * SECOND);
        assert_eq!(end, Verdict::Hung(30 * SECOND));
        pulse.started();
        assert!(!pulse.is_due(Duration::MAX));
    }

    proptest! {
        #[test]
        fn only_silence_for_all_of_its_patience_gives_one_up(
            patience in 1_u32..5,
            gaps in proptest::collection::vec((0_u64..40, any::<bool>()), 0..60),
        ) {
            let mut pulse = Pulse::new(10 * SECOND, patience);
            pulse.ready(Duration::ZERO);
            let (mut now, mut last, mut misses) = (Duration::ZERO, Duration::ZERO, 0);
            for (gap, lives) in gaps {
                now += Duration::from_millis(gap * 500);
                if !pulse.is_due(now) {
                    continue;
                }
                let sign = if lives { Sign::Life } else { Sign::Nothing };
                (last, misses) = if lives { (now, 0) } else { (last, misses + 1) };
                let verdict = pulse.answered(sign, now);
                let is_hung = misses >= patience;
                let expected = if is_hung { Verdict::Hung(now - last) } else { Verdict::Alive };
                prop_assert_eq!(verdict, expected);
                prop_assert!(!is_hung || now - last >= patience * 10 * SECOND);
            }
        }

        #[test]
        fn one_that_was_never_ready_is_never_given_up(seconds in proptest::collection::vec(0_u64..1000, 0..20)) {
            let mut pulse = Pulse::new(SECOND, 1);
            for second in seconds {
                prop_assert_eq!(pulse.answered(Sign::Nothing, Duration::from_secs(second)), Verdict::Alive);
            }
        }
    }
}

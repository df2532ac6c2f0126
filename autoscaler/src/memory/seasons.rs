//! Load at the same time of previous days and weeks.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Sample;

/// Load of the last two weeks, and how well its days and weeks predict the next ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seasons {
    /// Mean rate of each bin before the current one, in requests per second, the latest last. Unknown bins are zero,
    /// which predicts nothing.
    bins: VecDeque<f32>,
    current: Bin,
    day: Backtest,
    week: Backtest,
}

/// The current bin, which is still being filled.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bin {
    /// Number of the bin since the samples' fixed moment; `None` before the first sample.
    number: Option<u64>,
    /// Seconds of the bin that were reported.
    known: f64,
    requests: f64,
}

/// Decaying sums of forecast errors.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Backtest {
    /// Error of the forecast that the load stays the same.
    without: f64,
    /// Error of the same forecast, raised to the load at this time before.
    with: f64,
}

/// Seconds of a bin: long enough for a mean, short compared with the hours of a day.
const BIN: u64 = 300;

/// Number of bins in a day and in a week.
const DAY: usize = 24 * 3600 / BIN as usize;
const WEEK: usize = 7 * DAY;

/// Number of previous periods that must agree; a single one may be chance.
const PERIODS: usize = 2;

/// Number of bins that are remembered.
const KEPT: usize = PERIODS * WEEK;

/// Weight of a forecast that is too low: waiting requests cost this much more than idle replicas.
const SHORTAGE: f64 = 4.0;

/// A season is used while it reduces the forecast error of about the last day to this part.
const BETTER: f64 = 0.9;

/// Time by which replicas should be ready before their load.
const MARGIN: Duration = Duration::from_secs(10);

impl Seasons {
    /// Adds the arrivals of the sample.
    pub(crate) fn observe(&mut self, sample: &Sample) {
        let number = sample.at.as_secs() / BIN;
        let before = *self.current.number.get_or_insert(number);
        if number > before {
            self.close();
            let skipped = usize::try_from(number - before - 1).unwrap_or(KEPT);
            for _ in 0..skipped.min(KEPT) {
                self.push(0.0);
            }
            self.current.number = Some(number);
        }
        let span = sample.load.span.as_secs_f64();
        if span > 0.0 {
            // A report over more than a bin counts only with one bin's part.
            let known = span.min(BIN as f64);
            self.current.known += known;
            self.current.requests += sample.load.activity.arrivals as f64 * known / span;
        }
    }

    /// Returns the predicted rate, in requests per second: the highest forecast between now and the end of a start that
    /// would begin now. Returns zero if such forecasts have not proved true.
    pub(crate) fn rate(&self, now: Duration, cold_start: Duration) -> f64 {
        let within = Duration::from_secs(now.as_secs() % BIN);
        let ahead = cold_start.saturating_add(within + MARGIN).as_secs() / BIN;
        let ahead = usize::try_from(ahead).unwrap_or(DAY).min(DAY - 1);
        let rates = self.period().map(|period| {
            let bins = (0..=ahead).filter_map(|bin| self.forecast(period, bin));
            bins.fold(0.0, f64::max)
        });
        rates.unwrap_or_default()
    }

    /// Returns the period that has proved true. The week is preferred to the day, because weekends differ.
    fn period(&self) -> Option<usize> {
        let mut seasons = [(WEEK, self.week), (DAY, self.day)].into_iter();
        let proved =
            seasons.find(|(period, test)| self.bins.len() >= PERIODS * period && test.with < BETTER * test.without);
        proved.map(|(period, _)| period)
    }

    /// Returns the same past for the next revision, whose predictions have to prove true again.
    pub(crate) fn successor(&self) -> Self {
        Self { day: Backtest::default(), week: Backtest::default(), ..self.clone() }
    }

    /// Returns the lowest rate of a bin (0 is the current one) in the previous periods that are known.
    fn forecast(&self, period: usize, bin: usize) -> Option<f64> {
        let same = (1..=PERIODS).map_while(|back| {
            let index = (self.bins.len() + bin).checked_sub(back * period)?;
            self.bins.get(index)
        });
        same.copied().map(f64::from).reduce(f64::min)
    }

    /// Ends the current bin.
    fn close(&mut self) {
        let bin = std::mem::take(&mut self.current);
        if bin.known * 2.0 < BIN as f64 {
            self.push(0.0);
            return;
        }
        let rate = bin.requests / bin.known;
        let stays = self.bins.back().map_or(rate, |last| f64::from(*last));
        if let Some(forecast) = self.forecast(DAY, 0) {
            self.day.observe(stays, forecast, rate);
        }
        if let Some(forecast) = self.forecast(WEEK, 0) {
            self.week.observe(stays, forecast, rate);
        }
        self.push(rate as f32);
    }

    fn push(&mut self, rate: f32) {
        if self.bins.len() == KEPT {
            self.bins.pop_front();
        }
        self.bins.push_back(rate);
    }
}

impl Backtest {
    fn observe(&mut self, stays: f64, forecast: f64, rate: f64) {
        let fades = 1.0 - 1.0 / DAY as f64;
        self.without = self.without * fades + error(stays, rate);
        self.with = self.with * fades + error(stays.max(forecast), rate);
    }
}

fn error(forecast: f64, rate: f64) -> f64 {
    if forecast < rate { SHORTAGE * (rate - forecast) } else { forecast - rate }
}

#[cfg(test)]
mod tests {
    use weir_cluster::Activity;

    use super::*;
    use crate::{Coverage, Load, Replicas};

    const HOUR: u64 = 3600;
    const START: Duration = Duration::from_secs(60);

    fn observe(seasons: &mut Seasons, second: u64, span: u64, arrivals: u64) {
        let activity = Activity { arrivals, ..Activity::default() };
        seasons.observe(&Sample {
            at: Duration::from_secs(second),
            coverage: Coverage::Complete,
            load: Load { span: Duration::from_secs(span), activity },
            replicas: Replicas::default(),
        });
    }

    /// Returns the seasons after this many hours, with a rate for each hour, observed every minute.
    fn seen(hours: u64, rate: impl Fn(u64) -> u64) -> Seasons {
        let mut seasons = Seasons::default();
        for minute in 0..hours * 60 {
            observe(&mut seasons, minute * 60 + 59, 60, 60 * rate(minute / 60));
        }
        seasons
    }

    fn at(seasons: &Seasons, hour: u64, seconds_before: u64) -> f64 {
        let now = Duration::from_secs(hour * HOUR - seconds_before);
        seasons.rate(now, START)
    }

    /// Ten requests per second from nine to eleven o'clock.
    fn mornings(hour: u64) -> u64 {
        if (9..11).contains(&(hour % 24)) { 10 } else { 0 }
    }

    #[test]
    fn a_load_of_two_days_is_expected_on_the_third_a_start_ahead() {
        let seasons = seen(48 + 9, mornings);
        assert_eq!(at(&seasons, 48 + 9, 1), 10.0);
        let earlier = seen(48 + 8, mornings);
        assert_eq!(at(&earlier, 48 + 8, 1), 0.0);
    }

    #[test]
    fn a_load_is_not_expected_an_hour_ahead() {
        let mut seasons = seen(48 + 8, mornings);
        for minute in 0..59 {
            observe(&mut seasons, (48 + 8) * HOUR + minute * 60 + 59, 60, 0);
        }
        assert_eq!(at(&seasons, 48 + 9, 71), 0.0);
        assert_eq!(at(&seasons, 48 + 9, 70), 10.0);
    }

    #[test]
    fn one_day_predicts_nothing() {
        assert_eq!(at(&seen(24 + 9, mornings), 24 + 9, 1), 0.0);
    }

    #[test]
    fn a_day_without_the_load_ends_the_prediction() {
        let holiday = |hour| if hour < 72 { mornings(hour) } else { 0 };
        let seasons = seen(72 + 10, holiday);
        assert_eq!(at(&seasons, 72 + 10, 1), 0.0);
    }

    #[test]
    fn a_load_without_habits_predicts_nothing() {
        // Each day has requests in two other hours.
        let other = |hour: u64| u64::from(hour * 7 % 24 / 2 == hour / 24 * 5 % 12) * 10;
        for hour in 48..120 {
            assert_eq!(at(&seen(hour, other), hour, 1), 0.0, "{hour}");
        }
    }

    #[test]
    fn weekends_are_known_by_the_third_week() {
        let worked = |hour: u64| if hour / 24 % 7 < 5 { mornings(hour) } else { 0 };
        let week = 7 * 24;
        let monday = 2 * week + 9;
        assert_eq!(at(&seen(monday, worked), monday, 1), 10.0);
        let saturday = 2 * week + 5 * 24 + 10;
        assert_eq!(at(&seen(saturday, worked), saturday, 1), 0.0);
    }

    #[test]
    fn predictions_of_the_next_revision_have_to_prove_true() {
        let seasons = seen(48 + 9, mornings).successor();
        assert_eq!(at(&seasons, 48 + 9, 1), 0.0);
        assert!(!seasons.bins.is_empty());
    }

    #[test]
    fn clock_jumps_and_huge_spans_do_no_harm() {
        let mut seasons = Seasons::default();
        for second in [5, u64::MAX, 3, 0] {
            observe(&mut seasons, second, u64::MAX, u64::MAX);
        }
        assert!(seasons.bins.len() <= KEPT);
        assert!(seasons.rate(Duration::MAX, Duration::MAX).is_finite());
    }
}

//! The load at the same time of the days and weeks before.

use std::collections::VecDeque;
use std::time::Duration;

use crate::Sample;

/// The load of the last two weeks, and whether the days and the weeks of it foretell the next.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Seasons {
    /// The mean rate of each bin before the current one, in requests per second, the latest last. What is not known is
    /// zero: it foretells nothing.
    bins: VecDeque<f32>,
    current: Bin,
    day: Backtest,
    week: Backtest,
}

/// The bin that is being filled.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bin {
    /// Its number since the samples' fixed moment; unset before the first sample.
    number: Option<u64>,
    /// Seconds of it that were reported.
    known: f64,
    requests: f64,
}

/// The errors of forecasts up to now, of which older ones fade.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Backtest {
    /// Of a forecast that the load stays as it is.
    without: f64,
    /// Of the same, raised to what was at this time before.
    with: f64,
}

/// Seconds of a bin: long enough for a mean, short beside the hours of a day.
const BIN: u64 = 300;

/// Bins of a day and of a week.
const DAY: usize = 24 * 3600 / BIN as usize;
const WEEK: usize = 7 * DAY;

/// What was only once may be chance.
const PERIODS: usize = 2;

/// Bins that are remembered.
const KEPT: usize = PERIODS * WEEK;

/// Requests that wait are worth so much more than replicas that do.
const SHORT: f64 = 4.0;

/// A season counts while with it the forecasts of about the last day were this much better than without.
const BETTER: f64 = 0.9;

/// Replicas should be up a little before their load.
const MARGIN: Duration = Duration::from_secs(10);

impl Seasons {
    /// Takes in the arrivals of the sample.
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
            // Of a report over more than a bin, a bin's part.
            let known = span.min(BIN as f64);
            self.current.known += known;
            self.current.requests += sample.load.activity.arrivals as f64 * known / span;
        }
    }

    /// The rate, in requests per second, that is about to come as at this time before: the highest from now until a
    /// start from now would have ended. Zero where that did not prove true.
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

    /// The period that proved true: of weeks, whose weekends differ, before that of days.
    fn period(&self) -> Option<usize> {
        let mut seasons = [(WEEK, self.week), (DAY, self.day)].into_iter();
        let proved = seasons.find(|(period, test)| self.bins.len() >= PERIODS * period && test.is_passed());
        proved.map(|(period, _)| period)
    }

    /// The same past for the next revision, which has to prove anew that it foretells its load.
    pub(crate) fn successor(&self) -> Self {
        Self { day: Backtest::default(), week: Backtest::default(), ..self.clone() }
    }

    /// What a bin (0 is the current one) had at least in the periods before, as far as there are any.
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

    fn is_passed(&self) -> bool {
        self.with < BETTER * self.without
    }
}

fn error(forecast: f64, rate: f64) -> f64 {
    if forecast < rate { SHORT * (rate - forecast) } else { forecast - rate }
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

    /// The rates of so many hours, each by its number, seen each minute.
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

    /// Ten per second from nine to eleven.
    fn mornings(hour: u64) -> u64 {
        if (9..11).contains(&(hour % 24)) { 10 } else { 0 }
    }

    #[test]
    fn what_came_on_two_days_is_expected_on_the_third_a_start_ahead() {
        let seasons = seen(48 + 9, mornings);
        assert_eq!(at(&seasons, 48 + 9, 1), 10.0);
        let earlier = seen(48 + 8, mornings);
        assert_eq!(at(&earlier, 48 + 8, 1), 0.0);
    }

    #[test]
    fn a_start_ahead_is_not_an_hour_ahead() {
        let mut seasons = seen(48 + 8, mornings);
        for minute in 0..59 {
            observe(&mut seasons, (48 + 8) * HOUR + minute * 60 + 59, 60, 0);
        }
        assert_eq!(at(&seasons, 48 + 9, 71), 0.0);
        assert_eq!(at(&seasons, 48 + 9, 70), 10.0);
    }

    #[test]
    fn one_day_is_chance() {
        assert_eq!(at(&seen(24 + 9, mornings), 24 + 9, 1), 0.0);
    }

    #[test]
    fn a_day_without_it_ends_the_trust() {
        let holiday = |hour| if hour < 72 { mornings(hour) } else { 0 };
        let seasons = seen(72 + 10, holiday);
        assert_eq!(at(&seasons, 72 + 10, 1), 0.0);
    }

    #[test]
    fn where_nothing_comes_again_nothing_is_foretold() {
        // Two hours of each day, other ones each day.
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
    fn the_next_revision_has_to_prove_it() {
        let seasons = seen(48 + 9, mornings).successor();
        assert_eq!(at(&seasons, 48 + 9, 1), 0.0);
        assert!(!seasons.bins.is_empty());
    }

    #[test]
    fn clocks_that_jump_and_endless_spans_are_borne() {
        let mut seasons = Seasons::default();
        for second in [5, u64::MAX, 3, 0] {
            observe(&mut seasons, second, u64::MAX, u64::MAX);
        }
        assert!(seasons.bins.len() <= KEPT);
        assert!(seasons.rate(Duration::MAX, Duration::MAX).is_finite());
    }
}

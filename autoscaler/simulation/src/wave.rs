//! Random requests at a rate that follows a curve.

use std::f64::consts::TAU;
use std::time::Duration;

use crate::chance::Chance;

/// A rate that varies between two values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wave {
    /// The curve that the rate follows.
    pub shape: Shape,
    /// The lowest rate, in requests per second.
    pub low: f64,
    /// The highest rate, in requests per second.
    pub high: f64,
    /// Period of the curve; for a step, the time of the step.
    pub period: Duration,
}

/// The curve that a rate follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The highest rate for half of each period, then the lowest.
    Square,
    /// A sine curve that begins at the lowest rate.
    Sine,
    /// A linear rise from the lowest to the highest rate in each period.
    Ramp,
    /// The lowest rate for one period, then the highest.
    Step,
}

impl Wave {
    /// Returns the rate at a time, in requests per second.
    #[must_use]
    pub fn rate(&self, at: Duration) -> f64 {
        let turns = at.as_secs_f64() / self.period.as_secs_f64().max(1e-3);
        let phase = turns.fract();
        let part = match self.shape {
            Shape::Square if phase < 0.5 => 1.0,
            Shape::Square => 0.0,
            Shape::Sine => (1.0 - (phase * TAU).cos()) / 2.0,
            Shape::Ramp => phase,
            Shape::Step if turns < 1.0 => 0.0,
            Shape::Step => 1.0,
        };
        self.low + part * (self.high - self.low)
    }

    /// Returns the arrival times of a Poisson process with this rate. The same seed gives the same times.
    #[must_use]
    pub fn arrivals(&self, until: Duration, seed: u64) -> Vec<Duration> {
        let mut chance = Chance::new(seed);
        let most = self.low.max(self.high);
        if most <= 0.0 {
            return Vec::new();
        }
        let mean = Duration::from_secs_f64(1.0 / most);
        let mut arrivals = Vec::new();
        let mut at = chance.wait(mean);
        while at < until {
            if chance.happens(self.rate(at) / most) {
                arrivals.push(at);
            }
            at = at.saturating_add(chance.wait(mean));
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_arrivals_follows_the_curve() {
        let wave = |shape| Wave { shape, low: 10.0, high: 30.0, period: Duration::from_secs(100) };
        let count = |shape, until: u64| wave(shape).arrivals(Duration::from_secs(until), 3).len() as f64 / until as f64;
        for shape in [Shape::Square, Shape::Sine, Shape::Ramp] {
            let rate = count(shape, 1000);
            assert!((19.0..21.0).contains(&rate), "{shape:?} {rate}");
        }
        assert!((9.0..11.0).contains(&count(Shape::Step, 100)));
        assert_eq!(wave(Shape::Square).rate(Duration::from_secs(149)), 30.0);
        assert_eq!(wave(Shape::Square).rate(Duration::from_secs(151)), 10.0);
        let silent = Wave { low: 0.0, high: 0.0, ..wave(Shape::Sine) };
        assert!(silent.arrivals(Duration::from_secs(9), 1).is_empty());
    }
}

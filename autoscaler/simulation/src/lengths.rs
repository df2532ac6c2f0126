//! Lengths of requests.

use std::f64::consts::TAU;

use crate::chance::Chance;

/// Distribution of the lengths of requests, relative to their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Lengths {
    /// All requests are equally long.
    #[default]
    Equal,
    /// The logarithms of the lengths are normally distributed, as those of chat answers.
    LogNormal {
        /// Standard deviation of the logarithms. With 1, one answer in ten is longer than 2.2 times the mean.
        sigma: f64,
    },
    /// Some requests are longer than the others, which are equally long.
    Bimodal {
        /// Share of the long requests, from 0 to 1.
        share: f64,
        /// Length of a long request, relative to that of a short one.
        factor: f64,
    },
}

impl Lengths {
    /// Returns the length of the next request, relative to the mean.
    pub(crate) fn draw(self, chance: &mut Chance) -> f64 {
        match self {
            Self::Equal => 1.0,
            Self::LogNormal { sigma } => {
                // Box and Muller's method makes a normally distributed number of two uniform ones.
                let normal = (-2.0 * chance.next().ln()).sqrt() * (TAU * chance.next()).cos();
                (sigma * normal - sigma * sigma / 2.0).exp()
            }
            Self::Bimodal { share, factor } => {
                let short = 1.0 / (1.0 - share + share * factor);
                if chance.happens(share) { factor * short } else { short }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distribution_has_a_mean_of_one() {
        let bimodal = Lengths::Bimodal { share: 0.1, factor: 50.0 };
        for lengths in [Lengths::Equal, Lengths::LogNormal { sigma: 1.0 }, Lengths::LogNormal { sigma: 0.3 }, bimodal] {
            let mut chance = Chance::new(7);
            let mean = (0..100_000).map(|_| lengths.draw(&mut chance)).sum::<f64>() / 100_000.0;
            assert!((mean - 1.0).abs() < 0.03, "{mean} with {lengths:?}");
        }
    }

    #[test]
    fn the_spread_is_that_of_the_distribution() {
        let mut chance = Chance::new(7);
        let mut drawn: Vec<_> = (0..10_000).map(|_| Lengths::LogNormal { sigma: 1.0 }.draw(&mut chance)).collect();
        drawn.sort_by(f64::total_cmp);
        assert!((drawn[9000] - 2.19).abs() < 0.15, "{}", drawn[9000]);
        let bimodal = Lengths::Bimodal { share: 0.1, factor: 50.0 };
        let long = (0..10_000).filter(|_| bimodal.draw(&mut chance) > 1.0).count();
        assert!((900..1100).contains(&long), "{long}");
    }
}

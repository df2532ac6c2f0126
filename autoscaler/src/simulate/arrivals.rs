//! Requests that come by chance; the chance is an argument.

use std::time::Duration;

/// Arrivals of a Poisson process of this rate (per second) within `from..until`. The same seed gives the
/// same.
#[must_use]
pub fn poisson(rate: f64, from: Duration, until: Duration, seed: u64) -> Vec<Duration> {
    let mut chance = Chance(seed);
    let mut arrivals = Vec::new();
    let mut at = from;
    loop {
        at += Duration::from_secs_f64(-chance.next().ln() / rate);
        if at >= until {
            return arrivals;
        }
        arrivals.push(at);
    }
}

/// SplitMix64: a few lines that give the same numbers on every machine and in every version.
struct Chance(u64);

impl Chance {
    /// A number above 0 and at most 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((mixed >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_come_as_the_rate_says() {
        let hour = Duration::from_secs(3600);
        let arrivals = poisson(10.0, Duration::ZERO, hour, 7);
        assert!(
            (35_000..37_000).contains(&arrivals.len()),
            "{}",
            arrivals.len()
        );
        assert!(arrivals.is_sorted());
    }
}

//! Least cost without waiting, in closed form, to which tests compare the exact cost: each replica is considered
//! separately.

use super::Bins;

/// Replicas that each bin needs if no request is left to the next one.
pub(super) struct Demand(Vec<u32>);

impl From<&Bins> for Demand {
    fn from(bins: &Bins) -> Self {
        Self(bins.counts.iter().map(|count| bins.needed(*count)).collect())
    }
}

/// Returns the least GPU-seconds for this number of replicas in each bin. Any plan can be split into levels (the first
/// replica, the second and so on) whose costs are independent. For each level and each gap, it is cheaper either to
/// keep the replica or to start it again.
pub(super) fn level_cost(demand: &Demand, bin: f64, cold_start: f64) -> f64 {
    let levels = demand.0.iter().copied().max().unwrap_or_default();
    (1..=levels).map(|level| one_level(demand, level, bin, cold_start)).sum()
}

fn one_level(demand: &Demand, level: u32, bin: f64, cold_start: f64) -> f64 {
    let needed = demand.0.iter().enumerate().filter(|(_, replicas)| **replicas >= level);
    let mut cost = 0.0;
    let mut previous: Option<usize> = None;
    for (index, _) in needed {
        let gap = previous.map_or(f64::INFINITY, |last| (index - last - 1) as f64 * bin);
        cost += bin + gap.min(cold_start);
        previous = Some(index);
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_gaps_are_bridged_and_long_ones_are_not() {
        let cost = |demand: &[u32]| level_cost(&Demand(demand.to_vec()), 2.0, 10.0);
        assert_eq!(cost(&[0, 0]), 0.0);
        // A start and a bin.
        assert_eq!(cost(&[0, 1, 0]), 12.0);
        // A gap of two bins, 4 s, is shorter than a start.
        assert_eq!(cost(&[1, 0, 0, 1]), 18.0);
        // A gap of ten bins.
        assert_eq!(cost(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 24.0);
        // The second replica is a level of its own.
        assert_eq!(cost(&[1, 2, 1]), 10.0 + 6.0 + 12.0);
    }
}

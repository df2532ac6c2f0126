//! Chooses a revision by the weights of a split.

use weir_cluster::{RevisionName, Split};

/// 2^32 divided by the golden ratio. Multiples of it are spread over the circle of 2^32 as evenly as any sequence can
/// be, so weights are met closely after a few requests, and not only on average.
const GOLDEN: u32 = 2_654_435_769;

/// Returns the position of a split's n-th request in its sequence, 0..2^32.
pub(crate) fn sample(n: u32) -> u32 {
    n.wrapping_mul(GOLDEN)
}

/// Returns the revision whose share of 0..2^32 contains `sample`.
pub(crate) fn choose_by_weight(split: &Split, sample: u32) -> &RevisionName {
    let targets = split.targets();
    let mut position = (u64::from(sample) * u64::from(split.total())) >> 32;
    for target in targets {
        let weight = u64::from(target.weight);
        if position < weight {
            return &target.revision;
        }
        position -= weight;
    }
    // Unreachable: the position is below the sum of all weights, and a split is never empty.
    &targets[0].revision
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_cluster::{ServiceName, Target};

    use super::*;

    fn split(weights: &[u32]) -> Split {
        let service = ServiceName::new("default", "digits").unwrap();
        let target =
            |(i, weight): (usize, &u32)| Target { revision: service.revision(i as u32 + 1).unwrap(), weight: *weight };
        Split::new(weights.iter().enumerate().map(target).collect()).unwrap()
    }

    proptest! {
        #[test]
        fn every_share_is_met_within_a_few_requests(
            weights in proptest::collection::vec(0_u32..=100, 1..5),
            first: u32,
            n in 1_u32..4000,
        ) {
            prop_assume!(weights.iter().sum::<u32>() > 0);
            let split = split(&weights);
            let mut counts = vec![0_u32; weights.len()];
            for i in 0..n {
                let chosen = choose_by_weight(&split, sample(first.wrapping_add(i)));
                counts[chosen.number() as usize - 1] += 1;
            }
            for (count, weight) in counts.iter().zip(&weights) {
                let share = f64::from(*weight) / f64::from(split.total()) * f64::from(n);
                prop_assert!((f64::from(*count) - share).abs() < 8.0, "{count} of {n}, not {share}");
                prop_assert!(*weight > 0 || *count == 0);
            }
        }

        #[test]
        fn samples_spread_evenly_give_exact_shares(weights in proptest::collection::vec(0_u32..=50, 1..5)) {
            prop_assume!(weights.iter().sum::<u32>() > 0);
            let split = split(&weights);
            let total = u64::from(split.total());
            let mut counts = vec![0_u32; weights.len()];
            for position in 0..total {
                let sample = u32::try_from((position << 32).div_ceil(total)).unwrap();
                counts[choose_by_weight(&split, sample).number() as usize - 1] += 1;
            }
            prop_assert_eq!(counts, weights);
        }
    }
}

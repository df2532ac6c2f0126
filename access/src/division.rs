//! Division of a client's limits between gateways, each of which counts for itself: all of them together keep to the
//! limit, if requests are spread evenly.

use std::num::{NonZeroU32, NonZeroU64};

/// Returns one gateway's part of a number that is a limit for `gateways` gateways together, rounded up: a gateway
/// without any part would refuse every request.
#[must_use]
pub fn part_of_count(count: NonZeroU32, gateways: NonZeroU32) -> NonZeroU32 {
    let part = count.get().div_ceil(gateways.get());
    NonZeroU32::new(part).unwrap_or(NonZeroU32::MIN)
}

/// Returns one gateway's part of a burst, the units that may arrive at once after a pause, by the same rule as
/// [`part_of_count`].
pub(crate) fn part_of_burst(burst: NonZeroU64, gateways: NonZeroU32) -> NonZeroU64 {
    let part = burst.get().div_ceil(gateways.get().into());
    NonZeroU64::new(part).unwrap_or(NonZeroU64::MIN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).unwrap()
    }

    #[test]
    fn a_gateway_alone_has_the_whole_limit() {
        assert_eq!(part_of_count(number(50), number(1)), number(50));
    }

    #[test]
    fn several_gateways_have_a_part_each() {
        assert_eq!(part_of_count(number(50), number(3)), number(17));
        assert_eq!(part_of_count(number(1), number(3)), number(1));
        assert_eq!(part_of_burst(NonZeroU64::MAX, number(1)), NonZeroU64::MAX);
        assert_eq!(part_of_burst(number(50).into(), number(3)), number(17).into());
    }

    proptest! {
        #[test]
        fn the_parts_add_up_to_the_limit_and_less_than_one_more_each(count in 1_u32.., gateways in 1_u32..1000) {
            let all = u64::from(part_of_count(number(count), number(gateways)).get()) * u64::from(gateways);
            let count = u64::from(count);
            prop_assert!((count..count + u64::from(gateways)).contains(&all));
        }
    }
}

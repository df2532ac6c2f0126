//! Division of a client's limits between gateways, each of which counts for itself: all of them together keep to the
//! limit, if requests are spread evenly.

use std::num::NonZeroU32;
use std::time::Duration;

/// Returns one gateway's part of a number that is a limit for `gateways` gateways together, rounded up: a gateway without
/// any part would refuse every request.
#[must_use]
pub fn part_of_count(count: NonZeroU32, gateways: NonZeroU32) -> NonZeroU32 {
    let part = count.get().div_ceil(gateways.get());
    NonZeroU32::new(part).unwrap_or(NonZeroU32::MIN)
}

/// Returns the time between two requests at one gateway, if `interval` is the time between two requests at `gateways`
/// gateways together.
#[must_use]
pub fn part_of_interval(interval: Duration, gateways: NonZeroU32) -> Duration {
    interval.saturating_mul(gateways.get())
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
        assert_eq!(part_of_interval(Duration::from_millis(100), number(1)), Duration::from_millis(100));
    }

    #[test]
    fn several_gateways_have_a_part_each() {
        assert_eq!(part_of_count(number(50), number(3)), number(17));
        assert_eq!(part_of_count(number(1), number(3)), number(1));
        assert_eq!(part_of_interval(Duration::from_millis(100), number(3)), Duration::from_millis(300));
        assert_eq!(part_of_interval(Duration::MAX, number(3)), Duration::MAX);
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

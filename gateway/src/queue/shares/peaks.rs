//! The highest value that a number had recently.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Time for which a value counts as recent. It is longer than the pauses between the requests of a client that uses a
/// noticeable part of a replica. It is short enough that other clients soon use the credits of a client that is gone.
pub(super) const WINDOW: Duration = Duration::from_secs(5);

/// Values of the last [`WINDOW`], each with the time until which it was current. A value is dropped when a later one is
/// as high, so times ascend and values descend, and there are at most as many as the highest value.
#[derive(Debug, Default)]
pub(super) struct Peaks(VecDeque<(Instant, u32)>);

impl Peaks {
    /// Records a value that was current until `end`. Zero is the value of a time without a record.
    pub(super) fn record(&mut self, value: u32, end: Instant) {
        if value == 0 {
            return;
        }
        // Callers read the clock before they lock the queue, so times may be out of order by a moment.
        let end = self.0.back().map_or(end, |(last, _)| end.max(*last));
        while self.0.back().is_some_and(|(_, last)| *last <= value) {
            self.0.pop_back();
        }
        while self.0.front().is_some_and(|(first, _)| *first <= window_before(end)) {
            self.0.pop_front();
        }
        self.0.push_back((end, value));
    }

    /// Returns the highest recorded value that was current at any time after `since`.
    pub(super) fn after(&self, since: Instant) -> u32 {
        // The oldest value is mostly recent enough, or the newest one is not.
        match (self.0.front(), self.0.back()) {
            (Some((end, value)), _) if *end > since => return *value,
            (_, Some((end, _))) if *end <= since => return 0,
            _ => {}
        }
        let first = self.0.partition_point(|(end, _)| *end <= since);
        self.0.get(first).map_or(0, |(_, value)| *value)
    }
}

/// Returns the time at which the window that ends at `now` begins.
pub(super) fn window_before(now: Instant) -> Instant {
    now.checked_sub(WINDOW).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::now;

    proptest! {
        #[test]
        fn the_highest_value_after_any_time_is_found_in_bounded_memory(
            steps in proptest::collection::vec((0_u32..20, 0_u64..400), 1..200),
            since_ms in 0_u64..5000,
        ) {
            let (mut peaks, mut end) = (Peaks::default(), now() + WINDOW);
            let mut all = Vec::new();
            for (value, ms) in steps {
                end += Duration::from_millis(ms);
                peaks.record(value, end);
                all.push((end, value));
                prop_assert!(peaks.0.len() <= 20);
            }
            let since = end - Duration::from_millis(since_ms);
            let highest = all.iter().filter(|(end, _)| *end > since).map(|(_, value)| *value).max();
            prop_assert_eq!(peaks.after(since), highest.unwrap_or(0));
        }
    }
}

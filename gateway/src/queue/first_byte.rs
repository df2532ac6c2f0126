//! The wait of streamed responses inside engines: the time to the first byte beyond what the engine needs alone. A pure
//! value: the time is an argument.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_cluster::Activity;

use crate::engine_queue::with_waiting;

/// Number of times that are kept of requests that were alone at their replica. The engine's own time is derived from
/// them.
const SAMPLES: usize = 64;

/// Number of these times from which on a wait is reported. The longest of four is ignored, because the first request of
/// a replica may include a warm-up.
const LEAST_SAMPLES: usize = 4;

/// Shortest time over which waits are counted, the same as between two reports.
const INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time over which waits are averaged. If no response began for longer than this, the time before it does not
/// count.
const LONGEST_INTERVAL: Duration = Duration::from_secs(10);

/// Waits of the streamed responses of one revision, for replicas that do not report how many requests wait inside them.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstByteWait {
    /// Times to the first byte of requests that were alone at their replica, the latest last.
    alone: VecDeque<Duration>,
    /// Time that an engine needs for nine of ten requests that it has alone; `None` until it is known.
    needed: Option<Duration>,
    /// Start of the interval that is counted; `None` before the first report.
    since: Option<Instant>,
    /// First bytes in the interval of requests that were not alone.
    first_bytes: u32,
    /// Sum of the waits in the interval.
    sum: Duration,
    /// Longest wait in the interval.
    longest: Duration,
    reported: EngineDelay,
}

/// Requests that wait inside the replicas of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct EngineDelay {
    waiting: u32,
    longest: Duration,
}

impl FirstByteWait {
    /// Records the first byte of a response `took` after the request was sent, when the replica had `requests`
    /// requests, this one included.
    pub(super) fn record(&mut self, took: Duration, requests: u32) {
        if requests <= 1 {
            return self.learn(took);
        }
        let Some(needed) = self.needed else { return };
        let wait = took.saturating_sub(needed);
        self.first_bytes += 1;
        self.sum += wait;
        self.longest = self.longest.max(wait);
    }

    fn learn(&mut self, took: Duration) {
        if self.alone.len() == SAMPLES {
            self.alone.pop_front();
        }
        self.alone.push_back(took);
        if self.alone.len() >= LEAST_SAMPLES {
            let mut sorted: Vec<_> = self.alone.iter().copied().collect();
            sorted.sort_unstable();
            self.needed = sorted.get((sorted.len() - 1) * 9 / 10).copied();
        }
    }

    /// Returns the report's activity with the requests that wait inside the replicas: they count as queued instead of
    /// in flight.
    pub(super) fn counted(&mut self, activity: &Arc<Activity>, now: Instant) -> Arc<Activity> {
        let delay = self.delay(now);
        with_waiting(activity, delay.waiting, delay.longest)
    }

    /// Returns the number of requests that wait on average, by Little's law the sum of their waits for each second, and
    /// the longest wait. Between the first bytes of a busy engine, both stay for as long as the longest wait.
    fn delay(&mut self, now: Instant) -> EngineDelay {
        let since = *self.since.get_or_insert(now);
        let interval = now.saturating_duration_since(since);
        if self.first_bytes == 0 {
            if interval >= self.reported.longest.max(INTERVAL) {
                self.reported = EngineDelay::default();
            }
            return self.reported;
        }
        if interval < INTERVAL {
            return self.reported;
        }
        let over = interval.min(LONGEST_INTERVAL).as_secs_f64();
        let waiting = (self.sum.as_secs_f64() / over).round() as u32;
        // A wait of at least one interval counts as one waiting request, even if the average is lower.
        let waiting = if self.longest >= INTERVAL { waiting.max(1) } else { waiting };
        let longest = if waiting == 0 { Duration::ZERO } else { self.longest };
        self.reported = EngineDelay { waiting, longest };
        (self.since, self.first_bytes) = (Some(now), 0);
        (self.sum, self.longest) = (Duration::ZERO, Duration::ZERO);
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[expect(clippy::disallowed_methods, reason = "times are compared; tests need a first one")]
    fn start() -> Instant {
        Instant::now()
    }

    fn learned(needed: Duration) -> FirstByteWait {
        let mut wait = FirstByteWait::default();
        (0..SAMPLES).for_each(|_| wait.record(needed, 1));
        wait
    }

    #[test]
    fn an_engine_that_is_never_alone_reports_no_wait() {
        let (mut wait, now) = (FirstByteWait::default(), start());
        wait.delay(now);
        (0..100).for_each(|_| wait.record(9 * SECOND, 8));
        assert_eq!(wait.delay(now + SECOND), EngineDelay::default());
    }

    #[test]
    fn a_slow_first_request_does_not_hide_later_waits() {
        let (mut wait, now) = (FirstByteWait::default(), start());
        wait.record(60 * SECOND, 1);
        (0..3).for_each(|_| wait.record(SECOND, 1));
        wait.delay(now);
        wait.record(6 * SECOND, 2);
        assert_eq!(wait.delay(now + 10 * SECOND), EngineDelay { waiting: 1, longest: 5 * SECOND });
    }

    #[test]
    fn a_wait_stays_until_the_next_first_byte_can_be_expected() {
        let (mut wait, now) = (learned(SECOND), start());
        wait.delay(now);
        (0..3).for_each(|_| wait.record(5 * SECOND, 4));
        // Three requests a second that wait for four seconds are twelve at once.
        let busy = EngineDelay { waiting: 12, longest: 4 * SECOND };
        assert_eq!(wait.delay(now + SECOND), busy);
        assert_eq!(wait.delay(now + 4 * SECOND), busy);
        assert_eq!(wait.delay(now + 6 * SECOND), EngineDelay::default());
    }

    #[test]
    fn waiting_requests_count_as_queued_once() {
        let (mut wait, now) = (learned(SECOND), start());
        wait.delay(now);
        (0..20).for_each(|_| wait.record(3 * SECOND, 30));
        let activity = Arc::new(Activity { in_flight: 30, queued: 1, oldest_us: 5_000_000, ..Activity::default() });
        let counted = wait.counted(&activity, now + 2 * SECOND);
        assert_eq!((counted.queued, counted.in_flight, counted.oldest_us), (21, 10, 5_000_000));
        // No more can wait inside the replicas than the gateway has sent.
        let few = Arc::new(Activity { in_flight: 3, ..Activity::default() });
        let counted = wait.counted(&few, now + 2 * SECOND);
        assert_eq!((counted.queued, counted.in_flight, counted.oldest_us), (3, 0, 2_000_000));
    }

    proptest! {
        /// An engine works on `width` requests at once, each of which needs `needed` to its first byte and `length` to
        /// its end. With `clients` more, the rest waits in a queue.
        #[test]
        fn the_reported_wait_is_that_of_the_queue_inside_the_engine(
            width in 2_u32..40,
            more in 0_u32..200,
            needed_ms in 1_u64..2000,
            length_ms in 2000_u64..20_000,
        ) {
            let (needed, length) = (Duration::from_millis(needed_ms), Duration::from_millis(length_ms));
            let (mut wait, now) = (learned(needed), start());
            wait.delay(now);
            let queued = length * more / width;
            // The engine begins `width` requests in each `length`.
            let seconds = length_ms.div_ceil(1000) * 4;
            let mut begun = 0;
            for second in 1..=seconds {
                let due = second * 1000 * u64::from(width) / length_ms;
                (begun..due).for_each(|_| wait.record(queued + needed, width + more));
                begun = due;
                wait.delay(now + SECOND * second as u32);
            }
            let reported = wait.reported;
            let is_near = f64::from(reported.waiting) <= 2.0 * f64::from(more) + 2.0;
            prop_assert!(is_near, "{reported:?} of {more}");
            if more == 0 {
                prop_assert_eq!(reported, EngineDelay::default());
            }
            if queued >= SECOND && begun >= u64::from(width) {
                prop_assert_eq!(reported.longest, queued);
                prop_assert!(f64::from(reported.waiting) >= 0.3 * f64::from(more) - 2.0, "{:?} of {}", reported, more);
            }
        }

        #[test]
        fn an_engine_without_a_queue_waits_for_nothing_however_long_its_first_bytes_take(
            times in proptest::collection::vec(1_u64..30_000, 70..200),
        ) {
            let (mut wait, now) = (FirstByteWait::default(), start());
            let most = times.iter().copied().max().unwrap_or_default();
            (0..SAMPLES).for_each(|_| wait.record(Duration::from_millis(most), 1));
            for (second, ms) in times.iter().enumerate() {
                wait.record(Duration::from_millis(*ms), 1 + second as u32 % 5);
                let delay = wait.delay(now + SECOND * second as u32);
                prop_assert!(delay.longest < Duration::from_millis(most));
                prop_assert!(delay.waiting <= 30, "{delay:?}");
            }
        }
    }
}

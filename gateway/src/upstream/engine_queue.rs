//! The queue inside a replica that generates text, as the replica's metrics report it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Number of failures in a row, such as pages without the gauges, before the first pause. Each further failure is followed
/// by a pause too.
const FAILURES_BEFORE_PAUSE: u32 = 3;

/// Pause after that many failures. It doubles with each further failure.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// Longest pause. A server without the gauges gets at most one useless request a minute, and an engine whose program was
/// still starting, or was restarted without the platform's notice, is counted again within a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// Number of requests that wait inside one replica.
#[derive(Debug, Default)]
pub(crate) struct EngineQueue {
    readings: Mutex<Readings>,
    waiting: AtomicU32,
    is_known: AtomicBool,
}

/// Decides when a replica's metrics are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Readings {
    state: Reading,
    /// Failures in a row.
    failures: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reading {
    /// The next report may begin a reading.
    #[default]
    Due,
    Running,
    /// No reading begins before this time.
    Paused(Instant),
}

impl EngineQueue {
    /// Returns the number of requests waiting inside the replica that count for this gateway: an even share among
    /// `gateways` gateways, and at most the `requests` that this gateway has there.
    pub(crate) fn share(&self, requests: u32, gateways: u32) -> u32 {
        self.waiting.load(Ordering::Relaxed).div_ceil(gateways.max(1)).min(requests)
    }

    /// Returns true if the last reading of the replica's metrics contained the number of waiting requests.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Marks the metrics as being read; false if they are being read already, or if a pause after failures lasts.
    pub(crate) fn begins_reading(&self, now: Instant) -> bool {
        self.readings.lock().begin(now)
    }

    /// Records the number that was read; `None` if the metrics could not be read or lack it.
    pub(crate) fn has_read(&self, waiting: Option<u32>, now: Instant) {
        self.is_known.store(waiting.is_some(), Ordering::Relaxed);
        self.waiting.store(waiting.unwrap_or(0), Ordering::Relaxed);
        self.readings.lock().end(waiting, now);
    }

    /// Ends the pause, because the replica's program is another one now, which may have the gauges.
    pub(crate) fn has_restarted(&self) {
        self.readings.lock().forget_failures();
    }
}

impl Readings {
    fn begin(&mut self, now: Instant) -> bool {
        let begins = match self.state {
            Reading::Due => true,
            Reading::Running => false,
            Reading::Paused(until) => now >= until,
        };
        if begins {
            self.state = Reading::Running;
        }
        begins
    }

    fn end(&mut self, waiting: Option<u32>, now: Instant) {
        self.failures = if waiting.is_some() { 0 } else { self.failures.saturating_add(1) };
        self.state = pause_after(self.failures).map_or(Reading::Due, |pause| Reading::Paused(now + pause));
    }

    fn forget_failures(&mut self) {
        self.failures = 0;
        if let Reading::Paused(_) = self.state {
            self.state = Reading::Due;
        }
    }
}

/// Returns the pause after this many failures in a row; `None` if the next report may read the metrics again.
fn pause_after(failures: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(FAILURES_BEFORE_PAUSE)?;
    Some(FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(doublings)).min(LONGEST_PAUSE))
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

    #[test]
    fn gateways_share_a_queue_until_a_reading_fails() {
        let (queue, at) = (EngineQueue::default(), start());
        assert!(queue.begins_reading(at) && !queue.begins_reading(at));
        queue.has_read(Some(9), at);
        assert_eq!((queue.share(100, 2), queue.share(3, 2)), (5, 3));
        assert!(queue.is_known());
        assert!(queue.begins_reading(at));
        queue.has_read(None, at);
        assert_eq!(queue.share(100, 1), 0);
        assert!(!queue.is_known());
    }

    #[test]
    fn a_replica_without_metrics_is_read_again_after_pauses_that_double_up_to_a_minute() {
        let pauses: Vec<_> = (0..10).map(|failures| pause_after(failures).map(|pause| pause.as_secs())).collect();
        let expected = [None, None, None, Some(2), Some(4), Some(8), Some(16), Some(32), Some(60), Some(60)];
        assert_eq!(pauses, expected);
        assert_eq!(pause_after(u32::MAX), Some(LONGEST_PAUSE));
    }

    #[test]
    fn an_engine_that_was_still_starting_is_counted_later() {
        let (queue, mut at) = (EngineQueue::default(), start());
        // One report a second. The metrics exist from the eleventh second on.
        let mut seconds = Vec::new();
        for second in 0..30 {
            if queue.begins_reading(at) {
                queue.has_read((second > 10).then_some(4), at);
                seconds.push(second);
            }
            at += SECOND;
        }
        assert_eq!(seconds[..6], [0, 1, 2, 4, 8, 16]);
        assert_eq!(seconds[6..], (17..30).collect::<Vec<_>>());
        assert_eq!(queue.share(100, 1), 4);
    }

    #[test]
    fn a_restart_ends_the_pause() {
        let (queue, at) = (EngineQueue::default(), start());
        for _ in 0..FAILURES_BEFORE_PAUSE {
            assert!(queue.begins_reading(at));
            queue.has_read(None, at);
        }
        assert!(!queue.begins_reading(at));
        queue.has_restarted();
        assert!(queue.begins_reading(at));
        // A reading that runs is not joined by another one.
        queue.has_restarted();
        assert!(!queue.begins_reading(at));
    }

    proptest! {
        #[test]
        fn some_reading_begins_within_a_minute_and_never_two_at_once(
            events in proptest::collection::vec((0_u64..90, 0_u8..4), 0..100),
        ) {
            let (mut readings, mut at, mut is_running, mut ended) = (Readings::default(), start(), false, start());
            for (seconds, event) in events {
                at += Duration::from_secs(seconds);
                match event {
                    0 | 1 if is_running => {
                        readings.end((event == 0).then_some(1), at);
                        (is_running, ended) = (false, at);
                    }
                    2 => readings.forget_failures(),
                    _ => {
                        let begins = readings.begin(at);
                        prop_assert!(!begins || !is_running);
                        prop_assert!(begins || is_running || at < ended + LONGEST_PAUSE);
                        is_running |= begins;
                    }
                }
            }
        }
    }
}

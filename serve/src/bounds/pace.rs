//! Minimum rate at which a client must send a body, and read a response.
//!
//! A limit on pauses alone would let a client hold a connection by sending a byte now and then. Here each byte buys a
//! little time, after a grace period that is enough for everything small. A client can save up no more than one grace
//! period: otherwise a client that first sends megabytes could then send single bytes for hours.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum average rate, which applies after a grace period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time before the minimum rate applies.
    pub grace: Duration,
    /// Minimum rate in bytes per second, averaged from the beginning.
    pub rate: u32,
}

impl Default for Pace {
    /// A grace period of half a minute, the same as the longest pause; then 1 KiB/s. That is a fifth of the rate of a
    /// phone in bad reception on the oldest network in use (EDGE, about 40 kbit/s); a slower client would hold a
    /// connection without getting anything done.
    fn default() -> Self {
        Self { grace: Duration::from_secs(30), rate: 1024 }
    }
}

impl Pace {
    /// Returns the longest time that a client may take for `bytes`.
    #[must_use]
    pub fn allowance(self, bytes: u64) -> Duration {
        let rate = u64::from(self.rate.max(1));
        self.grace.saturating_add(Duration::from_secs(bytes / rate))
    }
}

/// Tracker of an upload in progress: its longest pause and its minimum rate.
#[derive(Clone, Copy, Debug)]
pub struct Upload {
    idle: Duration,
    pace: Pace,
    /// Time of the first wait. An upload that arrives without a wait never reads the clock.
    begun: Option<Instant>,
    bytes: u64,
}

impl Upload {
    /// Returns the tracker of an upload of which nothing has arrived.
    #[must_use]
    pub fn new(idle: Duration, pace: Pace) -> Self {
        Self { idle, pace, begun: None, bytes: 0 }
    }

    /// Counts bytes that have arrived.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Starts again for the next message.
    pub fn restart(&mut self) {
        (self.begun, self.bytes) = (None, 0);
    }

    /// Returns the longest time to wait for more bytes, from `now` on.
    pub fn longest_wait(&mut self, now: Instant) -> Duration {
        let begun = *self.begun.get_or_insert(now);
        let elapsed = now.saturating_duration_since(begun);
        let mut left = self.pace.allowance(self.bytes).saturating_sub(elapsed);
        if left > self.pace.grace {
            (self.begun, self.bytes) = (Some(now), 0);
            left = self.pace.grace;
        }
        left.min(self.idle)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PACE: Pace = Pace { grace: Duration::from_secs(30), rate: 1024 };
    const IDLE: Duration = Duration::from_secs(30);

    /// Returns the seconds after which an upload times out that receives `bytes` bytes every `every` seconds; `None` if
    /// it does not.
    fn given_up_after(bytes: usize, every: u64) -> Option<u64> {
        let begin = crate::clock::now();
        let mut upload = Upload::new(IDLE, PACE);
        let mut elapsed = Duration::ZERO;
        while elapsed < Duration::from_secs(100_000) {
            let longest_wait = upload.longest_wait(begin + elapsed);
            if longest_wait < Duration::from_secs(every) {
                return Some((elapsed + longest_wait).as_secs());
            }
            elapsed += Duration::from_secs(every);
            upload.add(bytes);
        }
        None
    }

    #[test]
    fn rare_bytes_do_not_extend_the_time() {
        assert_eq!(given_up_after(1, 29), Some(30));
        assert_eq!(given_up_after(1, 1), Some(30));
        assert_eq!(given_up_after(512, 1), Some(59));
        assert_eq!(given_up_after(0, 31), Some(30));
    }

    #[test]
    fn an_upload_at_the_minimum_rate_never_times_out() {
        assert_eq!(given_up_after(1024, 1), None);
        assert_eq!(given_up_after(29 * 1024, 29), None);
        assert_eq!(given_up_after(1 << 20, 31), Some(30));
    }

    #[tokio::test]
    async fn a_fast_start_earns_at_most_one_grace_period() {
        let begin = crate::clock::now();
        let mut upload = Upload::new(IDLE, PACE);
        upload.add(64 << 20);
        assert_eq!(upload.longest_wait(begin), IDLE);
        upload.add(1);
        let later = begin + Duration::from_secs(29);
        assert_eq!(upload.longest_wait(later), Duration::from_secs(1));
        upload.add(64 << 20);
        assert_eq!(upload.longest_wait(later), IDLE);
    }

    #[tokio::test]
    async fn each_message_has_its_own_grace_period() {
        let begin = crate::clock::now();
        let mut upload = Upload::new(IDLE, PACE);
        assert_eq!(upload.longest_wait(begin), IDLE);
        assert_eq!(upload.longest_wait(begin + IDLE), Duration::ZERO);
        upload.restart();
        assert_eq!(upload.longest_wait(begin + IDLE), IDLE);
    }

    proptest! {
        #[test]
        fn more_bytes_never_shorten_the_time(grace in 0..100_u64, rate: u32, bytes: u64, more: u64) {
            let pace = Pace { grace: Duration::from_secs(grace), rate };
            let (less, more) = (pace.allowance(bytes), pace.allowance(bytes.saturating_add(more)));
            prop_assert!(less <= more);
            prop_assert!(less >= pace.grace);
        }
    }
}

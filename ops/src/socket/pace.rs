//! The least rate at which a client must send what it announced, and take what it asked for.
//!
//! A longest pause alone lets a client hold a place with a byte now and then. Here each byte buys a little time, after
//! a grace that is enough for everything that is small. Nobody has more than a grace in hand: who sends megabytes at once
//! and then a byte now and then would hold them for hours.

use std::time::Duration;

use tokio::time::Instant;

/// A least average rate, after a grace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Time before the rate counts.
    pub grace: Duration,
    /// Least bytes a second, averaged from the beginning.
    pub rate: u32,
}

impl Default for Pace {
    /// Half a minute, as long as one pause may last; then 1 KiB/s, a fifth of what a phone has at the edge of the
    /// oldest networks in use (EDGE, some 40 kbit/s): who is slower holds a place, and is of no use to anybody.
    fn default() -> Self {
        Self { grace: Duration::from_secs(30), rate: 1024 }
    }
}

impl Pace {
    /// The longest time in which a client has moved no more than that many bytes.
    #[must_use]
    pub fn allowance(self, bytes: u64) -> Duration {
        let rate = u64::from(self.rate.max(1));
        self.grace.saturating_add(Duration::from_secs(bytes / rate))
    }
}

/// An upload in progress: its longest pause, and the pace that it keeps.
#[derive(Clone, Copy, Debug)]
pub struct Upload {
    idle: Duration,
    pace: Pace,
    /// Time of the first wait: what comes at once costs no look at the clock.
    begun: Option<Instant>,
    bytes: u64,
}

impl Upload {
    /// An upload of which nothing has come.
    #[must_use]
    pub fn new(idle: Duration, pace: Pace) -> Self {
        Self { idle, pace, begun: None, bytes: 0 }
    }

    /// Counts bytes that have come.
    pub fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Begins anew: what comes next is another message.
    pub fn restart(&mut self) {
        (self.begun, self.bytes) = (None, 0);
    }

    /// The longest wait for more, from `now` on.
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

    /// Seconds until an upload is given up that gets so many bytes each so many seconds.
    fn given_up_after(bytes: usize, every: u64) -> Option<u64> {
        let begin = Instant::now();
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
    fn a_byte_now_and_then_buys_no_time() {
        assert_eq!(given_up_after(1, 29), Some(30));
        assert_eq!(given_up_after(1, 1), Some(30));
        assert_eq!(given_up_after(512, 1), Some(59));
        assert_eq!(given_up_after(0, 31), Some(30));
    }

    #[test]
    fn who_keeps_the_pace_has_all_time() {
        assert_eq!(given_up_after(1024, 1), None);
        assert_eq!(given_up_after(29 * 1024, 29), None);
        assert_eq!(given_up_after(1 << 20, 31), Some(30));
    }

    #[tokio::test]
    async fn what_came_fast_buys_no_more_than_a_grace() {
        let begin = Instant::now();
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
    async fn another_message_has_its_own_grace() {
        let begin = Instant::now();
        let mut upload = Upload::new(IDLE, PACE);
        assert_eq!(upload.longest_wait(begin), IDLE);
        assert_eq!(upload.longest_wait(begin + IDLE), Duration::ZERO);
        upload.restart();
        assert_eq!(upload.longest_wait(begin + IDLE), IDLE);
    }

    proptest! {
        #[test]
        fn more_bytes_never_buy_less_time(grace in 0..100_u64, rate: u32, bytes: u64, more: u64) {
            let pace = Pace { grace: Duration::from_secs(grace), rate };
            let (less, more) = (pace.allowance(bytes), pace.allowance(bytes.saturating_add(more)));
            prop_assert!(less <= more);
            prop_assert!(less >= pace.grace);
        }
    }
}

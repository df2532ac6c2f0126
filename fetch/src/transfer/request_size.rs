//! Size of the requests for the parts of a large object. A fetch that is killed loses the bytes that have left the
//! server and are not on disk yet, up to the rest of each request. If the disk is slower than the network, such bytes
//! fill all buffers of the system. Small requests bound them, but each request costs the time until its first byte.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::PIECE;

/// Smallest request in bytes: sixteen of them are the bytes that a fetch loses when it is killed.
pub(super) const SMALLEST: u64 = 1 << 20;

/// Least ratio of the time in which the bytes of a request arrive to the time until the first of them. At 4, a
/// connection wastes a fifth of its time on waiting, while fifteen others read.
const RATIO: u128 = 4;

/// Size of the next request, which follows the times of the last ones.
#[derive(Debug)]
pub(super) struct RequestSize(AtomicU64);

/// A request whose times are measured.
pub(super) struct MeasuredRequest {
    sent: Instant,
    /// Time until the head of the response.
    wait: Duration,
}

impl RequestSize {
    /// Returns the size of the first requests, whose time is not known: whole pieces.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(PIECE))
    }

    /// Returns a size of this many bytes.
    #[cfg(test)]
    pub(super) const fn of(bytes: u64) -> Self {
        Self(AtomicU64::new(bytes))
    }

    /// Returns the size of the next request in bytes, from 1 MiB to [`PIECE`].
    pub(super) fn next(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adjusts the size to a request that has ended after this number of bytes.
    pub(super) fn observe(&self, request: &MeasuredRequest, bytes: u64) {
        let taken = request.sent.elapsed().saturating_sub(request.wait);
        // One slow response among many says little.
        let mean = (3 * self.next() + size(request.wait, bytes, taken)) / 4;
        self.0.store(mean, Ordering::Relaxed);
    }
}

impl MeasuredRequest {
    /// Begins to measure a request that is sent now.
    pub(super) fn begin() -> Self {
        #[expect(clippy::disallowed_methods, reason = "the size of requests follows the times of real ones")]
        let sent = Instant::now();
        Self { sent, wait: Duration::ZERO }
    }

    /// Notes that the head of the response has arrived.
    pub(super) fn answered(&mut self) {
        self.wait = self.sent.elapsed();
    }
}

/// Returns the size of requests that fits one whose response began after `wait`, and had `bytes` in `taken`.
fn size(wait: Duration, bytes: u64, taken: Duration) -> u64 {
    let awaited = RATIO.saturating_mul(u128::from(bytes)).saturating_mul(wait.as_micros());
    let fitting = awaited / taken.as_micros().max(1);
    u64::try_from(fitting).unwrap_or(u64::MAX).clamp(SMALLEST, PIECE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_are_small_only_if_the_server_answers_at_once() {
        let milliseconds = Duration::from_millis;
        let of_rate =
            |wait, megabytes_per_second: u64| size(milliseconds(wait), megabytes_per_second << 20, milliseconds(1000));
        // A store on the same machine, whose bytes a disk of 400 MB/s takes from sixteen connections.
        assert_eq!(of_rate(1, 25), SMALLEST);
        assert_eq!(of_rate(20, 25), 2 << 20);
        // Amazon's S3: 30 ms until the first byte, and 80 MB/s for each connection.
        assert_eq!(of_rate(30, 80), PIECE);
        assert_eq!(size(milliseconds(5), 1, Duration::ZERO), SMALLEST);
        assert_eq!(size(Duration::MAX, u64::MAX, Duration::ZERO), PIECE);
    }

    proptest! {
        #[test]
        fn the_time_until_the_first_byte_is_a_small_part(wait in 1..100_u64, rate in 1..1000_u64) {
            let size = size(Duration::from_millis(wait), rate << 20, Duration::from_secs(1));
            let transfer = size as f64 / (rate << 20) as f64;
            prop_assert!(size == PIECE || transfer >= 3.9 * wait as f64 / 1000.0);
        }
    }
}

//! Decides when to trim the C library's heap after a large batch.
//!
//! The heap keeps the memory of the largest batch that ever ran: 50 to 100 MB if a batch of 32 images was tried once,
//! although batches of 8 do the work. Keeping the memory of the largest current batch is fast, so memory is freed only
//! when several batches in a row have needed far less.

use std::time::Duration;

/// Shortest run that counts as a peak: a CPU writes no more than about 20 MB in less time.
const MIN_PEAK_TIME: Duration = Duration::from_millis(20);

/// Number of small batches in a row before a trim, so that bursts do not free and allocate alternately.
const MIN_SMALL_BATCHES: u32 = 4;

/// Run time between two trims. Allocating trimmed memory again takes half a millisecond per megabyte, which for 100 MB
/// is 2.5 % of this time.
const MIN_WORK: Duration = Duration::from_secs(2);

/// The largest batch since the last trim, and the batches after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeakMemory {
    /// Input bytes of the largest batch that took at least [`MIN_PEAK_TIME`].
    peak: usize,
    /// Number of batches in a row with at most half of these bytes.
    small_batches: u32,
    /// Total run time of the batches since the last trim.
    worked: Duration,
}

impl Default for PeakMemory {
    /// Returns a state that allows the first trim at once.
    fn default() -> Self {
        Self { peak: 0, small_batches: 0, worked: MIN_WORK }
    }
}

impl PeakMemory {
    /// Records a batch with `bytes` bytes of inputs. Returns true if the heap should be trimmed.
    pub(crate) fn record(&mut self, bytes: usize, took: Duration) -> bool {
        self.worked = self.worked.saturating_add(took);
        if bytes > self.peak / 2 {
            self.small_batches = 0;
            if took >= MIN_PEAK_TIME {
                self.peak = self.peak.max(bytes);
            }
            return false;
        }
        self.small_batches = self.small_batches.saturating_add(1);
        if self.small_batches < MIN_SMALL_BATCHES || self.worked < MIN_WORK {
            return false;
        }
        *self = Self { peak: 0, small_batches: 0, worked: Duration::ZERO };
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the indices of the batches after which the heap is trimmed; a batch of size n takes n times 10 ms.
    fn trims(sizes: &[usize]) -> Vec<usize> {
        let mut memory = PeakMemory::default();
        let trim = |(index, &size): (usize, &usize)| {
            let trim = memory.record(size, MS * 10 * size as u32);
            trim.then_some(index)
        };
        sizes.iter().enumerate().filter_map(trim).collect()
    }

    #[test]
    fn memory_of_a_single_large_batch_is_trimmed_once() {
        assert_eq!(trims(&[8, 32, 8, 8, 8, 8, 8, 8, 8, 8]), [5]);
        assert_eq!(trims(&[32, 8, 8, 8, 32, 8, 8, 8, 8]), [8]);
    }

    #[test]
    fn sizes_within_a_factor_of_two_keep_their_memory() {
        assert!(trims(&[8, 5, 5, 5, 5, 5, 5, 5, 8]).is_empty());
        assert!(trims(&[1, 2, 4, 8, 16, 32]).is_empty());
    }

    #[test]
    fn short_batches_leave_nothing_to_trim() {
        let mut memory = PeakMemory::default();
        for bytes in [1000, 1, 1, 1, 1, 1, 1] {
            assert!(!memory.record(bytes, MS * 19));
        }
    }

    proptest! {
        /// At least [`MIN_WORK`] of run time passes between two trims, whatever the sizes.
        #[test]
        fn trims_are_rare(sizes in prop::collection::vec(1usize..64, 1..400)) {
            let mut memory = PeakMemory::default();
            let mut since = MIN_WORK;
            for size in sizes {
                let took = MS * 5 * size as u32;
                since += took;
                if memory.record(size, took) {
                    prop_assert!(since >= MIN_WORK);
                    since = Duration::ZERO;
                }
            }
        }
    }
}

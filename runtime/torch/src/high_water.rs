//! When the C library should give back what a large batch left.
//!
//! Its heap keeps the room of the largest batch that ever ran: 50 to 100 MB where one of 32 images was tried
//! once, and batches of 8 do the work. Who keeps the largest room for every batch is fast; so that room goes
//! back only when several batches in a row have needed far less.

use std::time::Duration;

/// Batches that take less leave too little behind to look after: a processor writes 20 MB or so in that time.
const LONG: Duration = Duration::from_millis(20);

/// So many batches in a row need at most half: requests that come in bursts do not make the memory go
/// to and fro.
const CALM: u32 = 4;

/// Work between two times of giving back. What was given back too much is taken again at half a millisecond
/// a megabyte: with 100 MB, 2 % of this.
const APART: Duration = Duration::from_secs(2);

/// The largest batch since memory was given back, and what came after it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HighWater {
    /// Bytes of inputs, of the largest long batch.
    mark: usize,
    /// Batches in a row that needed at most half.
    calm: u32,
    /// What batches took together since memory was given back.
    worked: Duration,
}

/// What to do with memory that is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spare {
    /// The next batch may need it.
    Keep,
    /// No batch has needed it for a while.
    GiveBack,
}

impl Default for HighWater {
    /// The first time need not wait.
    fn default() -> Self {
        Self {
            mark: 0,
            calm: 0,
            worked: APART,
        }
    }
}

impl HighWater {
    /// Takes in that a batch with so many bytes of inputs ran, and how long.
    pub(crate) fn passed(&mut self, bytes: usize, took: Duration) -> Spare {
        self.worked = self.worked.saturating_add(took);
        if bytes > self.mark / 2 {
            self.calm = 0;
            if took >= LONG {
                self.mark = self.mark.max(bytes);
            }
            return Spare::Keep;
        }
        self.calm = self.calm.saturating_add(1);
        if self.calm < CALM || self.worked < APART {
            return Spare::Keep;
        }
        *self = Self {
            mark: 0,
            calm: 0,
            worked: Duration::ZERO,
        };
        Spare::GiveBack
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// After which batches memory goes back; sizes are also what they take, in 10 ms.
    fn given_back(sizes: &[usize]) -> Vec<usize> {
        let mut water = HighWater::default();
        let back = |(index, &size): (usize, &usize)| {
            let spare = water.passed(size, MS * 10 * size as u32);
            (spare == Spare::GiveBack).then_some(index)
        };
        sizes.iter().enumerate().filter_map(back).collect()
    }

    #[test]
    fn what_a_single_large_batch_left_goes_back_once() {
        assert_eq!(given_back(&[8, 32, 8, 8, 8, 8, 8, 8, 8, 8]), [5]);
        assert_eq!(given_back(&[32, 8, 8, 8, 32, 8, 8, 8, 8]), [8]);
    }

    #[test]
    fn sizes_within_a_factor_of_two_keep_what_they_have() {
        assert!(given_back(&[8, 5, 5, 5, 5, 5, 5, 5, 8]).is_empty());
        assert!(given_back(&[1, 2, 4, 8, 16, 32]).is_empty());
    }

    #[test]
    fn short_batches_leave_nothing_to_give_back() {
        let mut water = HighWater::default();
        for bytes in [1000, 1, 1, 1, 1, 1, 1] {
            assert_eq!(water.passed(bytes, MS * 19), Spare::Keep);
        }
    }

    proptest! {
        /// However sizes go up and down, two times of giving back are seconds of work apart.
        #[test]
        fn it_is_never_done_often(sizes in prop::collection::vec(1usize..64, 1..400)) {
            let mut water = HighWater::default();
            let mut since = APART;
            for size in sizes {
                let took = MS * 5 * size as u32;
                since += took;
                if water.passed(size, took) == Spare::GiveBack {
                    prop_assert!(since >= APART);
                    since = Duration::ZERO;
                }
            }
        }
    }
}

//! Buckets whose width grows with the value: each power of two is split into equal parts.

/// A division of the natural numbers into buckets, fixed at compile time.
pub(super) struct Buckets {
    /// Each power of two is split into `1 << cuts` buckets. Below `1 << cuts` every number has its own bucket.
    pub(super) cuts: u32,
    /// Number of buckets; the last one contains all larger values.
    pub(super) count: usize,
}

impl Buckets {
    /// Returns the index of a value's bucket.
    pub(super) fn index(&self, value: u64) -> usize {
        let exponent = (u64::BITS - value.leading_zeros()).saturating_sub(self.cuts + 1);
        let mantissa = value >> exponent;
        let index = (u64::from(exponent) << self.cuts) + mantissa;
        usize::try_from(index).map_or(self.count - 1, |index| index.min(self.count - 1))
    }

    /// Returns the smallest value in a bucket.
    pub(super) fn lower(&self, index: usize) -> u64 {
        let index = index as u64;
        if index < (1 << self.cuts) {
            return index;
        }
        let exponent = (index >> self.cuts) - 1;
        let mantissa = index - (exponent << self.cuts);
        mantissa << exponent
    }
}

//! Buckets that grow with the value: each power of two is cut into equal parts.

/// Cuts of numbers into buckets, fixed when the program is compiled.
pub(super) struct Buckets {
    /// Each power of two is cut into `1 << cuts` buckets, and below that every number has its own.
    pub(super) cuts: u32,
    /// How many buckets there are; the last holds everything above.
    pub(super) count: usize,
}

impl Buckets {
    /// The bucket of a value.
    pub(super) fn index(&self, value: u64) -> usize {
        let exponent = (u64::BITS - value.leading_zeros()).saturating_sub(self.cuts + 1);
        let mantissa = value >> exponent;
        let index = (u64::from(exponent) << self.cuts) + mantissa;
        usize::try_from(index).map_or(self.count - 1, |index| index.min(self.count - 1))
    }

    /// The smallest value of a bucket.
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

//! Padding buckets: requests of different lengths share a batch when they pad to the same bucket.
//!
//! An input's *length* is the size of its first variable dimension (-1 in the configuration). Every
//! input of a request pads to one bucket: the smallest that holds the longest of them. Outputs with
//! a variable dimension are cut back to the request's own length.

use std::collections::BTreeMap;

/// Padding buckets and values of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Padding {
    /// Bucket lengths, ascending, each at least 1.
    pub buckets: Vec<usize>,
    /// Padding value per input; 0 for inputs not listed.
    pub values: BTreeMap<String, f64>,
}

impl Padding {
    /// Returns the length to pad to. `None` if even the largest bucket is too small: the request keeps its length, and
    /// batches only with requests of equal length.
    #[must_use]
    pub(crate) fn bucket(&self, length: usize) -> Option<usize> {
        self.buckets.iter().copied().find(|bucket| *bucket >= length)
    }

    /// The value that fills the padding of an input.
    #[must_use]
    pub(crate) fn value(&self, input: &str) -> f64 {
        self.values.get(input).copied().unwrap_or(0.0)
    }
}

/// Index of the first variable dimension in configured dims, which exclude the batch dimension.
#[must_use]
pub(crate) fn variable_axis(dims: &[i64]) -> Option<usize> {
    dims.iter().position(|dim| *dim < 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_bucket_that_fits_is_chosen() {
        let padding = Padding { buckets: vec![4, 8, 16], values: BTreeMap::new() };
        for (length, bucket) in [(0, Some(4)), (4, Some(4)), (5, Some(8)), (16, Some(16))] {
            assert_eq!(padding.bucket(length), bucket);
        }
        assert_eq!(padding.bucket(17), None);
    }
}

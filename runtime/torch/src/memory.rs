//! A model's cap on device memory. libtorch's allocator knows none per model, so this counts: weights when
//! they are loaded, and what each run takes while it runs. A batch that went over the cap is answered as
//! one that found no memory, which makes the engine try smaller ones, and its size is not tried again.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_runtime::backend::ModelError;

/// What one run of a model may take of a device. Shared by the model's instances there.
#[derive(Debug)]
pub(crate) struct Cap {
    /// Bytes for one run: what the limit leaves beside the weights, in equal parts to the instances,
    /// which run at the same time.
    per_run: u64,
    /// The bytes of inputs from which on a batch is too large; none known at first. A larger batch of
    /// the same model is taken to need no less.
    too_large: AtomicU64,
}

impl Cap {
    /// # Errors
    /// A sentence, where the weights alone leave nothing to run with.
    pub(crate) fn new(limit: NonZeroU64, weights: u64, instances: usize) -> Result<Self, String> {
        let left = limit.get().saturating_sub(weights);
        let per_run = left / instances.max(1) as u64;
        if per_run == 0 {
            return Err(format!(
                "its weights take {weights} bytes, which leaves nothing of the {limit} that GPU_MEM_LIMIT allows"
            ));
        }
        Ok(Self {
            per_run,
            too_large: AtomicU64::new(u64::MAX),
        })
    }

    /// Refuses a batch of a size that went over the cap before.
    pub(crate) fn admit(&self, inputs: u64) -> Result<(), ModelError> {
        let too_large = self.too_large.load(Ordering::Relaxed);
        if inputs >= too_large {
            return Err(ModelError::OutOfMemory(format!(
                "{inputs} bytes of inputs are too many: with {too_large} a run went over the {} bytes \
                 that GPU_MEM_LIMIT leaves it",
                self.per_run
            )));
        }
        Ok(())
    }

    /// Takes note of what a run took: `peak` bytes at once beside its inputs. The inputs count twice, for
    /// those of the next batch are copied to the device meanwhile.
    pub(crate) fn record(&self, inputs: u64, peak: u64) -> Result<(), ModelError> {
        let taken = peak.saturating_add(inputs.saturating_mul(2));
        if taken <= self.per_run {
            return Ok(());
        }
        self.too_large.fetch_min(inputs, Ordering::Relaxed);
        Err(ModelError::OutOfMemory(format!(
            "a run with {inputs} bytes of inputs took {taken}, of {} that GPU_MEM_LIMIT leaves it",
            self.per_run
        )))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cap(limit: u64, weights: u64, instances: usize) -> Result<Cap, String> {
        Cap::new(NonZeroU64::new(limit).unwrap(), weights, instances)
    }

    #[test]
    fn instances_share_what_the_weights_leave() {
        assert_eq!(cap(100, 40, 1).unwrap().per_run, 60);
        assert_eq!(cap(100, 40, 3).unwrap().per_run, 20);
        for (weights, instances) in [(100, 1), (200, 1), (99, 2)] {
            let error = cap(100, weights, instances).unwrap_err();
            assert!(error.contains("GPU_MEM_LIMIT"), "{error}");
        }
    }

    #[test]
    fn a_size_that_went_over_is_not_tried_again_and_smaller_ones_are() {
        let cap = cap(100, 0, 1).unwrap();
        assert!(cap.admit(u64::MAX - 1).is_ok());
        assert!(cap.record(20, 60).is_ok());
        assert!(cap.record(30, 60).is_err());
        assert!(cap.admit(30).is_err() && cap.admit(31).is_err() && cap.admit(29).is_ok());
        assert!(cap.record(25, 90).is_err());
        assert!(cap.admit(25).is_err());
    }

    proptest! {
        /// Where a run needs no less than a smaller one, each size is refused exactly if it does not fit,
        /// once a run of its size or less has been seen not to.
        #[test]
        fn what_fits_runs_forever(sizes in prop::collection::vec(1u64..200, 1..50), factor in 0u64..5) {
            let cap = cap(500, 0, 1).unwrap();
            for inputs in sizes {
                let fits = factor * inputs + 2 * inputs <= 500;
                let ran = cap.admit(inputs).and_then(|()| cap.record(inputs, factor * inputs));
                prop_assert_eq!(ran.is_ok(), fits);
                prop_assert_eq!(cap.admit(inputs).is_ok(), fits);
            }
        }
    }
}

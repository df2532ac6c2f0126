//! A model's limit on device memory. libtorch's allocator has no limit per model, so the memory is counted here: the
//! weights when they are loaded, and the peak of each run. A batch that exceeds the limit fails as out of memory. The
//! engine then tries smaller batches, and does not try a batch of that size again.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_runtime::backend::{ModelError, RunMemory};

/// The limit on the device memory of one run, shared by the model's instances on that device.
#[derive(Debug)]
pub(crate) struct Cap {
    /// Bytes for one run: the limit minus the weights, divided equally among the instances, which run at the same time.
    per_run: u64,
    /// Input bytes of the smallest batch that exceeded the limit; `u64::MAX` if none has. A larger batch of the same
    /// model is assumed to need at least as much memory.
    too_large: AtomicU64,
}

impl Cap {
    /// # Errors
    /// A message, if the weights leave no memory for a run.
    pub(crate) fn new(limit: NonZeroU64, weights: u64, instances: usize) -> Result<Self, String> {
        let left = limit.get().saturating_sub(weights);
        let per_run = left / instances.max(1) as u64;
        if per_run == 0 {
            return Err(format!(
                "the weights take {weights} bytes and leave none of the {limit} of GPU_MEM_LIMIT: increase it"
            ));
        }
        Ok(Self { per_run, too_large: AtomicU64::new(u64::MAX) })
    }

    /// Returns true if a run of this memory leaves `held` bytes.
    pub(crate) fn has_room(&self, most: RunMemory, held: u64) -> bool {
        let run = most.workspace.saturating_add(most.inputs.saturating_mul(2));
        run.saturating_add(held) <= self.per_run
    }

    /// Refuses a batch with at least as many input bytes as one that exceeded the limit.
    pub(crate) fn admit(&self, inputs: u64) -> Result<(), ModelError> {
        let too_large = self.too_large.load(Ordering::Relaxed);
        if inputs >= too_large {
            return Err(ModelError::OutOfMemory(format!(
                "a batch with {inputs} bytes of inputs is too large: one with {too_large} exceeded the {} bytes \
                 that GPU_MEM_LIMIT leaves for a run",
                self.per_run
            )));
        }
        Ok(())
    }

    /// Records the memory of a run: a peak of `peak` bytes in addition to its inputs. The inputs count twice, because
    /// the inputs of the next batch are copied to the device at the same time.
    pub(crate) fn record(&self, inputs: u64, peak: u64) -> Result<(), ModelError> {
        let taken = peak.saturating_add(inputs.saturating_mul(2));
        if taken <= self.per_run {
            return Ok(());
        }
        self.too_large.fetch_min(inputs, Ordering::Relaxed);
        Err(ModelError::OutOfMemory(format!(
            "a run with {inputs} bytes of inputs took {taken} bytes; GPU_MEM_LIMIT leaves {} for a run",
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
    fn graphs_have_room_beside_the_largest_run() {
        let cap = cap(100, 0, 1).unwrap();
        let most = RunMemory { workspace: 60, inputs: 10, graphs: 0 };
        assert!(cap.has_room(most, 20) && !cap.has_room(most, 21));
    }

    #[test]
    fn a_size_that_exceeded_the_limit_is_refused_and_smaller_ones_run() {
        let cap = cap(100, 0, 1).unwrap();
        assert!(cap.admit(u64::MAX - 1).is_ok());
        assert!(cap.record(20, 60).is_ok());
        assert!(cap.record(30, 60).is_err());
        assert!(cap.admit(30).is_err() && cap.admit(31).is_err() && cap.admit(29).is_ok());
        assert!(cap.record(25, 90).is_err());
        assert!(cap.admit(25).is_err());
    }

    proptest! {
        /// If memory grows with the inputs, exactly the sizes that do not fit are refused.
        #[test]
        fn sizes_that_fit_are_never_refused(sizes in prop::collection::vec(1u64..200, 1..50), factor in 0u64..5) {
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

//! A model's limit on device memory. libtorch's allocator has no limit per model, so the memory is counted here: the
//! weights when they are loaded, and the peak of each run. A batch that exceeds the limit fails as out of memory. The
//! engine then runs smaller batches, and tries a larger one only now and then.

use std::num::NonZeroU64;

use weir_runtime::backend::{ModelError, RunMemory};

/// The limit on the device memory of one run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cap {
    /// Bytes for one run: the limit minus the weights, divided equally among the instances, which run at the same time.
    per_run: u64,
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
        Ok(Self { per_run })
    }

    /// Returns true if a run of this memory leaves `held` bytes.
    pub(crate) fn has_room(self, most: RunMemory, held: u64) -> bool {
        let run = most.workspace.saturating_add(most.inputs.saturating_mul(2));
        run.saturating_add(held) <= self.per_run
    }

    /// Checks the memory of a run: a peak of `peak` bytes in addition to its inputs. The inputs count twice, because
    /// the inputs of the next batch are copied to the device at the same time.
    pub(crate) fn check(self, inputs: u64, peak: u64) -> Result<(), ModelError> {
        let taken = peak.saturating_add(inputs.saturating_mul(2));
        if taken <= self.per_run {
            return Ok(());
        }
        Err(ModelError::OutOfMemory(format!(
            "a run with {inputs} bytes of inputs took {taken} bytes; GPU_MEM_LIMIT leaves {} for a run",
            self.per_run
        )))
    }
}

#[cfg(test)]
mod tests {
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
    fn a_run_that_exceeds_the_limit_fails_no_other_run() {
        let cap = cap(100, 0, 1).unwrap();
        assert!(cap.check(20, 60).is_ok());
        for (inputs, peak) in [(30, 60), (20, 61), (0, u64::MAX)] {
            let error = cap.check(inputs, peak).unwrap_err();
            assert!(matches!(error, ModelError::OutOfMemory(_)), "{error}");
            assert!(cap.check(20, 60).is_ok());
        }
    }
}

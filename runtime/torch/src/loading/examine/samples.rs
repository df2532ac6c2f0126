//! Runs the samples of `model_warmup` in a child process before the server runs them.

use std::time::Duration;

use weir_runtime::backend::{Instance, ModelSource};
use weir_runtime::sample_batch;

use crate::execution::instance::TorchInstance;
use crate::loading::sandbox::{Stage, enter, limited_to};

/// Limit on the processor time of one sample. An operator of the server chose the values, so a sample may take far longer
/// than generated inputs.
const LONGEST: Duration = Duration::from_secs(60);

/// Runs each sample once, on a copy if runs change the model's state. Errors are ignored here, because the server repeats
/// the samples and reports them.
pub(super) fn run(source: &ModelSource, instance: &mut TorchInstance) {
    let mut copy = instance.warm_up_copy().ok().flatten();
    for (index, sample) in source.samples.iter().enumerate() {
        let Ok(batch) = sample_batch(&source.name, &instance.plan.signature, sample) else {
            continue;
        };
        enter(Stage::Sample(index));
        let _ = limited_to(LONGEST, || match &mut copy {
            Some(copy) => copy.run(&batch),
            None => instance.run(&batch),
        });
    }
}

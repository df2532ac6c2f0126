//! Runs batches: the signature's inputs in, its outputs out.

use std::sync::Arc;

use weir_protocol::{DataType, Tensor};
use weir_runtime::backend::{
    Affinity, Answer, Batch, Column, Instance, ModelError, Overlap, Pending, Signature, Started,
    TensorConfig, Timing,
};

use crate::binding::Binding;
use crate::element;
use crate::gather;
use crate::high_water::{HighWater, Spare};
use crate::runner::{Call, Outcome, Place, QueuedCall, Runner};
use crate::settings::Cache;
use crate::startup;
use crate::stopwatch::Stopwatch;

/// A signature and how it maps to `forward`.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) signature: Signature,
    pub(crate) binding: Binding,
    /// By output of the signature: its index among the model's outputs.
    pub(crate) outputs: Vec<usize>,
}

/// A model on one device.
#[derive(Debug)]
pub(crate) struct TorchInstance {
    pub(crate) plan: Arc<Plan>,
    pub(crate) runner: Runner,
    pub(crate) high_water: HighWater,
}

impl Instance for TorchInstance {
    fn run(&mut self, batch: &Batch) -> Result<Answer, ModelError> {
        self.start(batch)?.finish()
    }

    /// Intra-operation threads are a pool of the thread that calls, and so are cuBLAS's and cuDNN's handles.
    fn affinity(&self) -> Affinity {
        match (&self.runner.place, self.runner.intra_op_threads) {
            (Place::Processor, 1) => Affinity::None,
            (Place::Processor | Place::Cuda(_), _) => Affinity::Thread,
        }
    }

    fn overlap(&self) -> Overlap {
        match &self.runner.place {
            Place::Processor => Overlap::None,
            Place::Cuda(gpu) => match gpu.cache {
                Cache::Keep => Overlap::OneAhead,
                // Emptying waits for what is queued: an answer would wait for the next batch's.
                Cache::Empty => Overlap::None,
            },
        }
    }

    fn finish_warm_up(&mut self) {
        startup::forget();
    }

    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        let inputs = &self.plan.signature.inputs;
        let columns: Vec<Option<&Column>> = inputs
            .iter()
            .map(|input| {
                batch
                    .columns
                    .iter()
                    .find(|column| *column.name == *input.name)
            })
            .collect();
        match self.runner.start(&self.plan.binding, &columns)? {
            Call::Done(outcomes, timing) => {
                let bytes = columns.iter().flatten().map(|column| gather::bytes(column));
                match self.high_water.passed(bytes.sum(), timing.infer) {
                    Spare::Keep => {}
                    Spare::GiveBack => startup::give_back(),
                }
                let answer = self.plan.answer(&outcomes, batch.rows, timing);
                answer.map(Started::Done)
            }
            Call::Queued(call) => Ok(Started::Pending(Box::new(QueuedBatch {
                plan: Arc::clone(&self.plan),
                call,
                rows: batch.rows,
            }))),
        }
    }
}

/// A batch that a device works on.
struct QueuedBatch {
    plan: Arc<Plan>,
    call: QueuedCall,
    rows: usize,
}

impl Pending for QueuedBatch {
    fn finish(self: Box<Self>) -> Result<Answer, ModelError> {
        let (outcomes, timing) = self.call.finish()?;
        self.plan.answer(&outcomes, self.rows, timing)
    }
}

impl Plan {
    fn answer(
        &self,
        outcomes: &[Outcome],
        rows: usize,
        mut timing: Timing,
    ) -> Result<Answer, ModelError> {
        let mut stopwatch = Stopwatch::start();
        let outputs = self.name(outcomes, rows)?;
        timing.output += stopwatch.lap();
        Ok(Answer {
            outputs,
            parameters: Vec::new(),
            timing,
        })
    }

    /// Picks the signature's outputs and checks them against it.
    fn name(&self, outcomes: &[Outcome], rows: usize) -> Result<Vec<Tensor>, ModelError> {
        let rows = (self.signature.max_batch_size > 0).then_some(rows);
        let outputs = self.signature.outputs.iter().zip(&self.outputs);
        outputs
            .map(|(output, &index)| {
                let outcome = outcomes.get(index).ok_or_else(|| {
                    ModelError::Failed(format!(
                        "The output {} in the model configuration refers to an output index which \
                         doesn't exist. This model has {} outputs",
                        output.name,
                        outcomes.len()
                    ))
                })?;
                name_one(output, outcome.clone(), rows)
            })
            .collect()
    }
}

fn name_one(
    output: &TensorConfig,
    mut outcome: Outcome,
    rows: Option<usize>,
) -> Result<Tensor, ModelError> {
    check_type(output, outcome.datatype)?;
    if let (DataType::Bytes, Some(rows)) = (output.datatype, rows) {
        split_rows(&mut outcome.sizes, rows as i64);
    }
    check_rows(output, &outcome.sizes, rows)?;
    let shape = outcome.shape()?;
    Tensor::new(output.name.clone(), output.datatype, shape, outcome.data)
        .map_err(|error| ModelError::Failed(format!("output '{}': {error}", output.name)))
}

fn check_type(output: &TensorConfig, datatype: Option<DataType>) -> Result<(), ModelError> {
    if datatype == Some(output.datatype) {
        return Ok(());
    }
    let provided = datatype.map_or("TYPE_INVALID".to_owned(), element::config_name);
    Err(ModelError::Failed(format!(
        "configuration expects datatype {} for output '{}', model provides {provided}",
        element::config_name(output.datatype),
        output.name,
    )))
}

/// A list of strings has no rows of its own: equally many of them are each row's.
fn split_rows(sizes: &mut Vec<i64>, rows: i64) {
    if let [count] = sizes[..]
        && rows > 0
        && count % rows == 0
    {
        *sizes = vec![rows, count / rows];
    }
}

fn check_rows(output: &TensorConfig, sizes: &[i64], rows: Option<usize>) -> Result<(), ModelError> {
    let name = &output.name;
    let Some(&first) = sizes.first() else {
        return Err(ModelError::Failed(format!(
            "output '{name}' is a scalar which is not supported."
        )));
    };
    match rows {
        Some(rows) if rows as i64 != first => Err(ModelError::Failed(format!(
            "output '{name}' has {first} rows for a batch of {rows}"
        ))),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine may run an instance on another thread than made it, and finish a batch on a third.
    #[test]
    fn an_instance_and_what_it_started_may_change_thread() {
        fn may_change_thread<T: Send>() {}
        may_change_thread::<TorchInstance>();
        may_change_thread::<QueuedBatch>();
    }
}

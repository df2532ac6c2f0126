//! An instance of a model, which runs batches according to the signature.

use std::sync::Arc;

use weir_protocol::{DataType, Tensor};
use weir_runtime::backend::{
    Affinity, Batch, BatchOutput, Captured, Column, Instance, LoadError, ModelError, Overlap, Pending, RunMemory,
    ShapeTolerance, Signature, StagedRows, Started, TensorConfig, Timing,
};

use crate::execution::binding::Binding;
use crate::execution::graph_trial::CudaTrial;
use crate::execution::graphs::captured::CapturedRun;
use crate::execution::graphs::trial::{Outcome, try_graph};
use crate::execution::graphs::{Graphs, InputLayout};
use crate::execution::outputs::{self, OutputBinding};
use crate::execution::runner::{Placement, Prepared, QueuedRun, RunOutput, Runner, StartedRun};
use crate::libtorch::element;
use crate::libtorch::gather;
use crate::module::Metering;
use crate::peak_memory::PeakMemory;
use crate::settings::Cache;
use crate::staged_inputs::Staging;
use crate::startup;
use crate::stopwatch::Stopwatch;

/// A signature, and its binding to the arguments and outputs of `forward`.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) signature: Signature,
    pub(crate) binding: Binding,
    pub(crate) outputs: OutputBinding,
}

/// A model on one device, ready to run batches.
#[derive(Debug)]
pub(crate) struct TorchInstance {
    pub(crate) plan: Arc<Plan>,
    /// Dropped before the runner, whose module returns the free memory of its device to the driver.
    graphs: Graphs<CapturedRun>,
    pub(crate) runner: Runner,
    peak_memory: PeakMemory,
    counted: CountedMemory,
    staging: Staging,
}

/// The memory of the largest run, which is counted until the end of the warm-up.
#[derive(Clone, Copy, Debug)]
struct CountedMemory {
    metering: Metering,
    most: RunMemory,
}

impl Default for CountedMemory {
    /// Returns the state before the warm-up, in which runs are counted.
    fn default() -> Self {
        Self { metering: Metering::On, most: RunMemory::default() }
    }
}

impl CountedMemory {
    fn record(&mut self, inputs: usize, workspace: u64) {
        if self.metering == Metering::On {
            self.most.inputs = self.most.inputs.max(inputs as u64);
            self.most.workspace = self.most.workspace.max(workspace);
        }
    }
}

impl Instance for TorchInstance {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError> {
        self.start(batch)?.finish()
    }

    /// Returns the thread affinity. The pool of intra-operation threads and the handles of cuBLAS and cuDNN belong to
    /// the calling thread, so the instance may change thread only on the CPU with one thread.
    fn affinity(&self) -> Affinity {
        match (&self.runner.placement, self.runner.intra_op_threads) {
            (Placement::Processor, 1) => Affinity::None,
            (Placement::Processor | Placement::Cuda(_), _) => Affinity::Thread,
        }
    }

    fn overlap(&self) -> Overlap {
        match &self.runner.placement {
            Placement::Processor => Overlap::None,
            Placement::Cuda(gpu) => match gpu.cache {
                Cache::Keep => Overlap::OneAhead,
                // Emptying the cache waits for all queued work, so a batch queued ahead would delay the response of
                // this one.
                Cache::EmptyAfterRun => Overlap::None,
            },
        }
    }

    fn warm_up_copy(&self) -> Result<Option<Box<dyn Instance>>, LoadError> {
        let runner = self.runner.warm_up_copy();
        let runner = runner.map_err(|fault| fault.of_load("a copy of the model"))?;
        Ok(runner.map(|runner| -> Box<dyn Instance> {
            // Runs change the model, so it has no graphs.
            Box::new(Self::new(Arc::clone(&self.plan), runner, Graphs::off()))
        }))
    }

    fn run_memory(&self) -> Option<RunMemory> {
        let most = RunMemory { graphs: self.graphs.bytes(), ..self.counted.most };
        Some(most).filter(|most| most.workspace > 0)
    }

    fn capture(&mut self, batch: &Batch) -> Captured {
        let columns = self.plan.columns(batch);
        let Some(layout) = InputLayout::of(&columns, self.plan.batch_rows(batch)) else { return Captured::No };
        if !self.graphs.wants(&layout, batch.rows) {
            return Captured::No;
        }
        let Some(outcome) = self.try_graph(batch, &columns) else { return Captured::No };
        let captured = match outcome {
            Outcome::Kept { .. } => Captured::Yes,
            Outcome::TooSlow { .. } | Outcome::Unfit(_) => Captured::No,
        };
        self.graphs.record(layout, batch.rows, outcome);
        captured
    }

    fn finish_warm_up(&mut self) {
        self.counted.metering = Metering::Off;
        let (placement, most) = (&self.runner.placement, self.counted.most);
        self.graphs.finish(|held| placement.has_room(most, held));
        startup::release_memory();
        match &self.runner.placement {
            Placement::Processor => {}
            Placement::Cuda(gpu) => gpu.release_warm_up(self.runner.module.device()),
        }
    }

    fn stage(&mut self, request: &Batch, most: usize) -> Option<StagedRows> {
        if self.runner.placement.is_processor() || self.plan.signature.max_batch_size == 0 {
            return None;
        }
        let columns = self.plan.columns(request);
        let uploads = |index| self.runner.uploads(&self.plan.binding, index);
        self.staging.add(&columns, (request.rows, most), uploads)
    }

    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        let columns = self.plan.columns(batch);
        let prepared = self.staging.prepare(&columns, &batch.requests);
        let held = self.graphs.held();
        let graph = if self.graphs.is_empty() {
            None
        } else {
            let layout = InputLayout::of(&columns, self.plan.batch_rows(batch));
            layout.and_then(|layout| self.graphs.choose(&layout, batch.rows))
        };
        let prepared = Prepared { inputs: &prepared, metering: self.counted.metering, graph, held };
        let (run, workspace) = self.runner.start(&self.plan.binding, &columns, prepared)?;
        let inputs = columns.iter().flatten().map(|column| gather::bytes(column)).sum();
        self.counted.record(inputs, workspace);
        match run {
            StartedRun::Done(run_outputs, timing) => {
                if self.peak_memory.record(inputs, timing.infer) {
                    startup::trim_heap();
                }
                let answer = self.plan.answer(&run_outputs, batch.rows, timing);
                answer.map(Started::Done)
            }
            StartedRun::Queued(run) => {
                Ok(Started::Pending(Box::new(QueuedBatch { plan: Arc::clone(&self.plan), run, rows: batch.rows })))
            }
        }
    }
}

impl TorchInstance {
    /// Returns an instance before its warm-up.
    pub(crate) fn new(plan: Arc<Plan>, runner: Runner, graphs: Graphs<CapturedRun>) -> Self {
        Self {
            plan,
            graphs,
            runner,
            peak_memory: PeakMemory::default(),
            counted: CountedMemory::default(),
            staging: Staging::default(),
        }
    }

    /// Tries a graph for a batch; `None` on the CPU.
    fn try_graph(&self, batch: &Batch, columns: &[Option<&Column>]) -> Option<Outcome<CapturedRun>> {
        let Placement::Cuda(gpu) = &self.runner.placement else { return None };
        Some(try_graph(&mut CudaTrial {
            runner: &self.runner,
            gpu,
            binding: &self.plan.binding,
            columns,
            batch_rows: self.plan.batch_rows(batch),
            like: self.graphs.any(),
            open: None,
        }))
    }
}

/// A batch that is queued on a device.
struct QueuedBatch {
    plan: Arc<Plan>,
    run: QueuedRun,
    rows: usize,
}

impl Pending for QueuedBatch {
    fn finish(self: Box<Self>) -> Result<BatchOutput, ModelError> {
        let (run_outputs, timing) = self.run.finish()?;
        self.plan.answer(&run_outputs, self.rows, timing)
    }
}

impl Plan {
    /// Returns a batch's columns in the order of the signature's inputs.
    fn columns<'a>(&self, batch: &'a Batch) -> Vec<Option<&'a Column>> {
        let inputs = self.signature.inputs.iter();
        inputs.map(|input| batch.columns.iter().find(|column| *column.name == *input.name)).collect()
    }

    /// Returns the rows of a batch; `None` for a model without a batch dimension.
    fn batch_rows(&self, batch: &Batch) -> Option<usize> {
        (self.signature.max_batch_size > 0).then_some(batch.rows)
    }

    fn answer(&self, run_outputs: &[RunOutput], rows: usize, mut timing: Timing) -> Result<BatchOutput, ModelError> {
        let mut stopwatch = Stopwatch::start();
        let outputs = self.name_outputs(run_outputs, rows)?;
        timing.output += stopwatch.lap();
        Ok(BatchOutput { outputs, parameters: Vec::new(), timing })
    }

    /// Selects the signature's outputs and checks them against it.
    fn name_outputs(&self, run_outputs: &[RunOutput], rows: usize) -> Result<Vec<Tensor>, ModelError> {
        let rows = (self.signature.max_batch_size > 0).then_some(rows);
        let chosen = self.outputs.choose(&self.signature.outputs, run_outputs)?;
        let outputs = self.signature.outputs.iter().zip(chosen);
        outputs
            .map(|(output, run_output)| {
                let run_output = run_output.map_or_else(|| outputs::empty(output, rows), Clone::clone);
                name_output(output, run_output, (rows, self.signature.tolerance))
            })
            .collect()
    }
}

fn name_output(
    output: &TensorConfig,
    mut run_output: RunOutput,
    (rows, tolerance): (Option<usize>, ShapeTolerance),
) -> Result<Tensor, ModelError> {
    let datatype = match (tolerance, run_output.datatype) {
        // The signature is a guess, so the output keeps the datatype that the model returned.
        (ShapeTolerance::Everything, Some(datatype)) => datatype,
        _ => output.datatype,
    };
    if datatype == output.datatype {
        check_type(output, run_output.datatype)?;
    }
    if let (DataType::Bytes, Some(rows), [_, ..]) = (output.datatype, rows, output.dims.as_slice()) {
        split_rows(&mut run_output.sizes, rows as i64);
    }
    check_rows(output, &run_output.sizes, rows)?;
    if is_scalar_of_one(output, &run_output.sizes, rows) {
        run_output.sizes.push(1);
    }
    let shape = run_output.shape()?;
    Tensor::new(output.name.clone(), datatype, shape, run_output.data)
        .map_err(|error| ModelError::Failed(format!("output '{}': {error}", output.name)))
}

/// Returns true if a run returned a scalar, or one for each row, where the dims are `[1]`: a configuration cannot express
/// a scalar. With a `reshape`, the dims are added to the response later.
fn is_scalar_of_one(output: &TensorConfig, sizes: &[i64], rows: Option<usize>) -> bool {
    output.dims == [1] && output.reshape.is_none() && sizes.len() == usize::from(rows.is_some())
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

/// Divides a list of strings, which has no batch dimension, equally among the batch's rows.
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
    let Some(rows) = rows else {
        return Ok(()); // without a batch dimension, any shape is valid, even a scalar
    };
    let Some(&first) = sizes.first() else {
        return Err(ModelError::Failed(format!("output '{name}' is a scalar which is not supported.")));
    };
    if rows as i64 != first {
        return Err(ModelError::Failed(format!("output '{name}' has {first} rows for a batch of {rows}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape_of(dims: &[i64], reshape: Option<&[i64]>, (sizes, rows): (&[i64], Option<usize>)) -> Vec<usize> {
        let output = TensorConfig {
            name: "y".to_owned(),
            datatype: DataType::Bool,
            dims: dims.to_vec(),
            reshape: reshape.map(<[i64]>::to_vec),
            optional: false,
        };
        let count = sizes.iter().product::<i64>() as usize;
        let run = RunOutput {
            datatype: Some(DataType::Bool),
            sizes: sizes.to_vec(),
            data: bytes::Bytes::from(vec![1; count]),
            path: None,
        };
        let named = name_output(&output, run, (rows, ShapeTolerance::None)).unwrap();
        named.shape().dims().to_vec()
    }

    #[test]
    fn outputs_have_the_rank_of_their_metadata() {
        let none = None::<&[i64]>;
        for (dims, reshape, run, expected) in [
            (&[][..], none, (&[3][..], Some(3)), &[3][..]),
            (&[1], none, (&[3], Some(3)), &[3, 1]),
            (&[1], none, (&[3, 1], Some(3)), &[3, 1]),
            (&[1], none, (&[1], Some(1)), &[1, 1]),
            (&[1], none, (&[1, 1], Some(1)), &[1, 1]),
            (&[1], Some(&[]), (&[3], Some(3)), &[3]),
            (&[1], none, (&[], None), &[1]),
            (&[1], none, (&[1], None), &[1]),
            (&[], none, (&[], None), &[]),
            (&[-1], none, (&[3], None), &[3]),
        ] {
            assert_eq!(shape_of(dims, reshape, run), expected, "{dims:?} {run:?}");
        }
    }

    /// The engine may create an instance, run it and finish its batch on three different threads.
    #[test]
    fn an_instance_and_its_queued_batches_may_change_thread() {
        fn may_change_thread<T: Send>() {}
        may_change_thread::<TorchInstance>();
        may_change_thread::<QueuedBatch>();
    }
}

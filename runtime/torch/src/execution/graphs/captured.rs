//! A run of a model that was captured as a CUDA graph, with the memory that it reads and writes.

use super::Captured;
use super::policy::Padding;
use crate::execution::cuda_streams::CudaStreams;
use crate::libtorch::fault::Fault;
use crate::libtorch::graph::Graph;
use crate::libtorch::tensor::Tensor;
use crate::module::{Output, Run, Value, Values};

/// A captured run. The kernels of a graph have fixed addresses: each replay reads these inputs and writes these outputs.
#[derive(Debug)]
pub(crate) struct CapturedRun {
    graph: Graph,
    inputs: Values,
    outputs: Vec<Tensor>,
    paths: Vec<String>,
    peak: u64,
    /// Rows of the batch; `None` for a model without a batch dimension.
    batch_rows: Option<usize>,
    streams: CudaStreams,
}

impl CapturedRun {
    /// Makes a captured run of its inputs, and of what the run returned while it was captured.
    ///
    /// # Errors
    /// [`Fault::Raised`] if an output is in host memory, which a replay does not write.
    pub(crate) fn new(
        graph: Graph,
        (inputs, run): (Values, Run),
        batch_rows: Option<usize>,
        streams: CudaStreams,
    ) -> Result<Self, Fault> {
        let on_device = |output: Output| match output {
            Output::Tensor(tensor) if !tensor.is_on_cpu() => Ok(tensor),
            Output::Tensor(_) | Output::Strings { .. } => {
                Err(Fault::Raised("an output is computed on the host, which a graph does not repeat".to_owned()))
            }
        };
        let outputs = run.outputs.into_iter().map(on_device).collect::<Result<_, Fault>>()?;
        Ok(Self { graph, inputs, outputs, paths: run.paths, peak: run.peak, batch_rows, streams })
    }

    /// Queues a replay on the compute stream: copies the inputs, of as many rows or fewer, runs the kernels, and returns
    /// the outputs of these rows. They must be downloaded on that stream before the next replay is queued.
    pub(crate) fn replay(&self, values: &Values) -> Result<Vec<Output>, Fault> {
        let stream = self.streams.compute();
        for (value, input) in tensors(values).zip(tensors(&self.inputs)) {
            value.copy_rows(input, stream)?;
        }
        self.graph.replay(stream)?;
        let rows = self.batch_rows.and_then(|_| tensors(values).next()?.sizes().first().copied());
        // An output without the batch's rows, which the signature may leave out, is returned as it is.
        let rows = rows.filter(|rows| Some(*rows) != self.batch_rows.map(|full| full as i64));
        let outputs = self.outputs.iter().map(|output| output.first_rows(rows).map(Output::Tensor));
        outputs.collect()
    }

    /// Returns the paths of the outputs, as each run returns them.
    pub(crate) fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Returns the number of outputs.
    pub(crate) fn count(&self) -> usize {
        self.outputs.len()
    }

    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }
}

impl Captured for CapturedRun {
    fn buffers(&self) -> u64 {
        tensors(&self.inputs).chain(&self.outputs).map(Tensor::bytes).sum()
    }

    fn peak(&self) -> u64 {
        self.peak
    }

    /// Allows padding if the model has a batch dimension: the server puts the rows of different clients into one batch for
    /// the same reason. Each output must have the batch's rows.
    fn padding(&self) -> Padding {
        let has_rows = |rows: usize| self.outputs.iter().all(|output| output.sizes().first() == Some(&(rows as i64)));
        if self.batch_rows.is_some_and(has_rows) { Padding::Allowed } else { Padding::Forbidden }
    }
}

impl Drop for CapturedRun {
    /// Waits for the last replay, which must not lose its graph and its memory.
    fn drop(&mut self) {
        if let Err(fault) = self.streams.compute().synchronize() {
            tracing::warn!(%fault, "cannot wait for the last replay of a CUDA graph");
        }
    }
}

/// Returns the tensors among the values of a call, in order.
fn tensors(values: &Values) -> Box<dyn Iterator<Item = &Tensor> + '_> {
    match values {
        Values::Positional(values) => Box::new(values.iter().filter_map(tensor)),
        Values::Dict(entries) => Box::new(entries.iter().filter_map(|(_, value)| tensor(value))),
    }
}

fn tensor(value: &Value) -> Option<&Tensor> {
    match value {
        Value::Tensor(tensor) => Some(tensor),
        Value::Absent | Value::Strings(_) => None,
    }
}

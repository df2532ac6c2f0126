//! Runs a module on its device, from the columns of a batch to its outputs.

mod onnx;

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, Device, ModelError, RunMemory, Timing};

use crate::execution::binding::{self, Binding};
use crate::execution::cuda_streams::CudaStreams;
use crate::execution::graphs::captured::CapturedRun;
use crate::execution::graphs::probation::Probation;
use crate::execution::graphs::{Chosen, Trust};
use crate::libtorch::element;
use crate::libtorch::fault::Fault;
use crate::libtorch::gather;
use crate::libtorch::in_flight::{DeviceStreams, InFlightBatch, launch};
use crate::libtorch::process;
use crate::libtorch::tensor::Tensor;
use crate::memory::Cap;
use crate::module::{Argument, Metering, Module, Output, Run, Value, Values};
use crate::settings::{Cache, RunOptions};
use crate::staged_inputs::PreparedInputs;
use crate::stopwatch::Stopwatch;

/// A module on a device, with the options to run it.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) module: Arc<Module>,
    pub(crate) placement: Placement,
    pub(crate) options: RunOptions,
    pub(crate) intra_op_threads: i32,
}

/// The device that a runner uses.
#[derive(Clone, Debug)]
pub(crate) enum Placement {
    /// The CPU, on the calling thread.
    Processor,
    /// A CUDA device, asynchronously.
    Cuda(Gpu),
}

impl Placement {
    pub(crate) fn is_processor(&self) -> bool {
        matches!(self, Self::Processor)
    }

    /// Returns true if the model's memory limit has room for `held` bytes beside its largest run.
    pub(crate) fn has_room(&self, most: RunMemory, held: u64) -> bool {
        match self {
            Self::Processor | Self::Cuda(Gpu { cap: None, .. }) => true,
            Self::Cuda(Gpu { cap: Some(cap), .. }) => cap.has_room(most, held),
        }
    }
}

/// A CUDA device as used by one instance.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    pub(crate) streams: CudaStreams,
    pub(crate) cap: Option<Cap>,
    pub(crate) cache: Cache,
}

/// An output of a run, not yet named.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RunOutput {
    /// Datatype; `None` for element types that V2 does not have.
    pub(crate) datatype: Option<DataType>,
    /// Dimensions; empty for a scalar.
    pub(crate) sizes: Vec<i64>,
    pub(crate) data: Bytes,
    /// The output's path in the returned value, if paths differ between runs.
    pub(crate) path: Option<String>,
}

/// The preparations for a run.
#[derive(Debug)]
pub(crate) struct Prepared<'a> {
    /// Inputs that need not be copied again.
    pub(crate) inputs: &'a PreparedInputs,
    pub(crate) metering: Metering,
    /// The graph that runs the batch; `None` to launch the kernels one by one.
    pub(crate) graph: Option<Chosen<'a, CapturedRun>>,
    /// Bytes that the instance's graphs hold beside the run.
    pub(crate) held: u64,
}

/// A run that has been started.
#[derive(Debug)]
pub(crate) enum StartedRun {
    /// The CPU has completed the run.
    Done(Vec<RunOutput>, Timing),
    /// The run is queued on a device.
    Queued(QueuedRun),
}

/// A run that is queued on a device.
#[derive(Debug)]
pub(crate) struct QueuedRun {
    batch: InFlightBatch<CudaStreams>,
    paths: Vec<String>,
    gpu: Gpu,
    /// Time spent gathering inputs and queueing their copies.
    input: Duration,
    comparison: Option<Comparison>,
}

/// The comparison of a run with a replay, whose outputs follow those of the run.
#[derive(Debug)]
struct Comparison {
    probation: Arc<Probation>,
    /// Number of outputs of the replay.
    count: usize,
}

impl Runner {
    /// Returns a runner whose runs do not change this module: a runner of a copy if the module writes to itself,
    /// otherwise `None`.
    pub(crate) fn warm_up_copy(&self) -> Result<Option<Self>, Fault> {
        if self.module.self_writes().reason().is_none() {
            return Ok(None);
        }
        Ok(Some(Self { module: Arc::new(self.module.copy()?), ..self.clone() }))
    }

    /// Returns a runner of a copy of the module on the CPU.
    ///
    /// # Errors
    /// The reason that there is no such copy, in words that follow "because".
    pub(crate) fn on_processor(&self) -> Result<Self, String> {
        Ok(Self { module: Arc::new(self.module.on_processor()?), placement: Placement::Processor, ..self.clone() })
    }

    /// Returns the reason why no run of this runner can be captured, in words that follow "because"; `None` if there may be
    /// graphs.
    pub(crate) fn graph_obstacle(&self) -> Option<String> {
        let shared = match &self.placement {
            Placement::Cuda(gpu) if gpu.streams.are_shared() => Some(
                "the device has so many instances that it shares their streams, and a capture would record them all",
            ),
            Placement::Cuda(_) | Placement::Processor => None,
        };
        self.module.graph_obstacle().or_else(|| shared.map(str::to_owned))
    }

    /// Runs one batch. `columns` are in the binding's order, with `None` for an optional input that is left out. The
    /// caller adds the time of its own work on the outputs to the output time.
    pub(crate) fn run(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
    ) -> Result<(Vec<RunOutput>, Timing), ModelError> {
        let inputs = &PreparedInputs::default();
        let prepared = Prepared { inputs, metering: Metering::Off, graph: None, held: 0 };
        match self.start(binding, columns, prepared)?.0 {
            StartedRun::Done(outputs, timing) => Ok((outputs, timing)),
            StartedRun::Queued(call) => call.finish(),
        }
    }

    /// Starts a run like [`Runner::run`], but does not wait for a CUDA device. Also returns the most bytes that the run
    /// allocated at once on its device, without its inputs; 0 if they were not counted.
    pub(crate) fn start(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
        prepared: Prepared<'_>,
    ) -> Result<(StartedRun, u64), ModelError> {
        process::set_intra_op_threads(self.intra_op_threads).map_err(Fault::of_run)?;
        match &self.placement {
            Placement::Processor => self.run_on_cpu(binding, columns, prepared.metering),
            Placement::Cuda(gpu) => self.queue(gpu, (binding, columns), &prepared),
        }
    }

    fn run_on_cpu(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
        metering: Metering,
    ) -> Result<(StartedRun, u64), ModelError> {
        if let Some(session) = self.module.session() {
            return onnx::run(session, binding, columns)
                .map(|(outputs, timing)| (StartedRun::Done(outputs, timing), 0));
        }
        let (mut stopwatch, mut timing) = (Stopwatch::start(), Timing::default());
        let values = self.values(binding, columns, &[])?;
        timing.input = stopwatch.lap();
        let run = self.module.run(&values, self.options, metering, None).map_err(Fault::of_run)?;
        timing.infer = stopwatch.lap();
        let outputs = convert_outputs(run.outputs, run.paths);
        Ok((StartedRun::Done(outputs, timing), run.peak))
    }

    fn queue(
        &self,
        gpu: &Gpu,
        (binding, columns): (&Binding, &[Option<&Column>]),
        prepared: &Prepared<'_>,
    ) -> Result<(StartedRun, u64), ModelError> {
        let (input, run) = (Cell::new(Duration::ZERO), Cell::default());
        let upload = || {
            let mut stopwatch = Stopwatch::start();
            let values = self.values(binding, columns, &prepared.inputs.tensors);
            input.set(prepared.inputs.spent + stopwatch.lap());
            values
        };
        let batch = launch(&gpu.streams, upload, |values: Values| {
            let (queued, comparison) = self.queue_kernels(gpu, &values, prepared)?;
            run.set((queued.paths, queued.peak, comparison));
            Ok(queued.outputs)
        })?;
        let (paths, peak, comparison) = run.take();
        let inputs = columns.iter().flatten().map(|column| gather::bytes(column)).sum::<usize>();
        gpu.check(inputs as u64, peak.saturating_add(prepared.held))?;
        let run = QueuedRun { batch, paths, gpu: gpu.clone(), input: input.get(), comparison };
        Ok((StartedRun::Queued(run), peak))
    }

    /// Queues the kernels of a run: one by one, or as a graph. If the graph is on probation, both are queued, and the graph's
    /// outputs follow those of the run.
    fn queue_kernels(
        &self,
        gpu: &Gpu,
        values: &Values,
        prepared: &Prepared<'_>,
    ) -> Result<(Run, Option<Comparison>), Fault> {
        let metering = gpu.metering(prepared.metering);
        let launched = || self.module.run(values, self.options, metering, Some(gpu.streams.compute()));
        let Some(Chosen { run: graph, trust }) = &prepared.graph else { return Ok((launched()?, None)) };
        // The replay has inputs of its own, so it comes first: a run may change those that both are given.
        let outputs = match (graph.replay(values), trust) {
            (Ok(outputs), _) => outputs,
            (Err(fault), Trust::Trial) => return Err(fault),
            (Err(fault), Trust::Probation(probation) | Trust::Proven(probation)) => {
                tracing::error!(%fault, "a replay of a CUDA graph failed: the batch runs without it");
                probation.refute();
                return Ok((launched()?, None));
            }
        };
        match trust {
            Trust::Trial | Trust::Proven(_) => Ok((Run { outputs, paths: graph.paths().to_vec(), peak: 0 }, None)),
            Trust::Probation(probation) => {
                let mut run = launched()?;
                run.outputs.extend(outputs);
                Ok((run, Some(Comparison { probation: Arc::clone(probation), count: graph.count() })))
            }
        }
    }

    /// Gathers the inputs of a batch, and queues their copies to the device.
    pub(crate) fn upload(&self, binding: &Binding, columns: &[Option<&Column>]) -> Result<Values, ModelError> {
        self.values(binding, columns, &[])
    }

    fn values(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
        prepared: &[Option<Tensor>],
    ) -> Result<Values, ModelError> {
        let value = |index: usize, column: &Column| {
            let prepared = prepared.get(index).and_then(Option::as_ref);
            self.value(column, self.argument(binding, index), prepared)
        };
        match binding {
            Binding::Positional { argument_of, arguments } => {
                let mut values: Vec<Value> = (0..*arguments).map(|_| Value::Absent).collect();
                for (index, (&argument, column)) in argument_of.iter().zip(columns).enumerate() {
                    if let Some(column) = column {
                        values[argument] = value(index, column)?;
                    }
                }
                Ok(Values::Positional(values))
            }
            Binding::Dict(keys) => {
                let mut entries = Vec::with_capacity(keys.len());
                for (index, (key, column)) in keys.iter().zip(columns).enumerate() {
                    if let Some(column) = column {
                        entries.push((key.clone(), value(index, column)?));
                    }
                }
                Ok(Values::Dict(entries))
            }
        }
    }

    /// Returns the argument of `forward` that the input with this index becomes, or becomes a part of.
    fn argument(&self, binding: &Binding, index: usize) -> &Argument {
        let arguments = self.module.arguments();
        match binding {
            Binding::Positional { argument_of, .. } => &arguments[argument_of[index]],
            Binding::Dict(_) => &arguments[0],
        }
    }

    /// Returns true if the input with this index is copied to a device as a tensor.
    pub(crate) fn uploads(&self, binding: &Binding, index: usize) -> bool {
        !self.argument(binding, index).kind.is_one_value()
    }

    /// Makes the model's argument from a column, on the model's device. If the model writes to its input, the request's
    /// bytes are copied, because they are needed again if the batch fails and its requests run alone.
    fn value(&self, column: &Column, argument: &Argument, prepared: Option<&Tensor>) -> Result<Value, ModelError> {
        check_datatype(column, argument).map_err(ModelError::Failed)?;
        let (Some(element_type), Some(size)) = (element::element_type(column.datatype), column.datatype.size()) else {
            return Ok(Value::Strings(gather::strings(column)));
        };
        gather::check(column, size).map_err(ModelError::Failed)?;
        let sizes: Vec<i64> = column.shape.signed().collect();
        let fill = |out: &mut _| gather::gather(column, size, out);
        let tensor = match &self.placement {
            Placement::Cuda(gpu) if !argument.kind.is_one_value() => match prepared {
                Some(tensor) => gpu.streams.upload_pinned(tensor),
                None => gpu.streams.upload(element_type, &sizes, fill),
            },
            Placement::Cuda(_) => Tensor::filled(element_type, &sizes, fill),
            Placement::Processor => match gather::single_part(column).filter(|_| !argument.mutated) {
                Some(data) => Tensor::borrowed(element_type, &sizes, size, data)
                    .transpose()
                    .unwrap_or_else(|| Tensor::filled(element_type, &sizes, fill)),
                None => Tensor::filled(element_type, &sizes, fill),
            },
        };
        tensor.map(Value::Tensor).map_err(Fault::of_run)
    }
}

impl Gpu {
    /// Returns the device memory that only the warm-up needed to the driver. The allocator keeps the blocks of every batch
    /// size of the warm-up, which together take about twice the memory of the largest one. Later runs allocate what they
    /// need.
    pub(crate) fn release_warm_up(&self, device: Device) {
        let Device::Cuda(index) = device else { return };
        let before = process::cuda_memory(index).unwrap_or_default();
        if let Err(fault) = self.streams.reclaim() {
            tracing::warn!(%fault, "cannot free the GPU memory of the warm-up");
            return;
        }
        let after = process::cuda_memory(index).unwrap_or_default();
        tracing::info!(
            gpu = index,
            reserved_bytes = after.total,
            allocated_bytes = after.used,
            returned_bytes = before.total.saturating_sub(after.total),
            "returned the GPU memory that only the warm-up needed"
        );
    }

    /// Converts outputs, whose memory keeps the streams that it was used on.
    fn convert_outputs(&self, outputs: Vec<Output>, paths: Vec<String>) -> Vec<RunOutput> {
        let converted = convert_outputs(outputs, paths).into_iter();
        converted.map(|output| RunOutput { data: self.streams.keep_for(output.data), ..output }).collect()
    }

    /// Returns the metering of a run: always on with a memory limit, otherwise `wanted`.
    fn metering(&self, wanted: Metering) -> Metering {
        self.cap.map_or(wanted, |_| Metering::On)
    }

    /// Fails a run whose memory exceeded the model's limit.
    fn check(&self, inputs: u64, peak: u64) -> Result<(), ModelError> {
        self.cap.map_or(Ok(()), |cap| cap.check(inputs, peak))
    }
}

impl QueuedRun {
    /// Waits for the device. The caller adds the time of its own work on the outputs to the output time.
    pub(crate) fn finish(self) -> Result<(Vec<RunOutput>, Timing), ModelError> {
        let completed = self.batch.finish()?;
        match self.gpu.cache {
            Cache::Keep => {}
            Cache::EmptyAfterRun => self.gpu.streams.reclaim().map_err(Fault::of_run)?,
        }
        let timing = Timing { input: self.input, infer: completed.infer, output: completed.output };
        let mut outputs = completed.outputs;
        let Some(Comparison { probation, count }) = self.comparison else {
            return Ok((self.gpu.convert_outputs(outputs, self.paths), timing));
        };
        let replayed = outputs.split_off(outputs.len().saturating_sub(count));
        let replayed = self.gpu.convert_outputs(replayed, self.paths.clone());
        let launched = self.gpu.convert_outputs(outputs, self.paths);
        probation.compare(&launched, &replayed);
        Ok((launched, timing))
    }
}

impl RunOutput {
    /// Converts the dimensions to a shape.
    pub(crate) fn shape(&self) -> Result<Shape, ModelError> {
        Shape::new(&self.sizes).map_err(|error| ModelError::Failed(error.to_string()))
    }
}

/// Checks that the column's datatype fits the argument, and that all parts have it: bytes of another datatype would be
/// misread.
fn check_datatype(column: &Column, argument: &Argument) -> Result<(), String> {
    let (name, datatype) = (&column.name, column.datatype);
    let mut parts = column.parts.iter();
    if let Some(other) = parts.find(|part| part.datatype != datatype) {
        return Err(format!("input '{name}' of datatype {} is in a batch of {datatype}", other.datatype));
    }
    if !binding::takes(argument.kind, datatype) {
        return Err(format!(
            "input '{name}' of datatype {datatype} cannot become an argument of type {}",
            argument.type_text
        ));
    }
    Ok(())
}

fn convert_outputs(outputs: Vec<Output>, paths: Vec<String>) -> Vec<RunOutput> {
    let mut paths = paths.into_iter();
    let converted = outputs.into_iter().map(|output| convert_output(output, paths.next()));
    converted.collect()
}

fn convert_output(output: Output, path: Option<String>) -> RunOutput {
    match output {
        Output::Tensor(tensor) => RunOutput {
            datatype: element::datatype(tensor.element_type()),
            sizes: tensor.sizes(),
            data: tensor.into_bytes(),
            path,
        },
        Output::Strings { data, count } => {
            RunOutput { datatype: Some(DataType::Bytes), sizes: vec![count as i64], data, path }
        }
    }
}

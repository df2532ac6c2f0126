//! One call of a module on its device: arguments in, named outputs out.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, ModelError, Timing};

use crate::binding::Binding;
use crate::cuda_lanes::CudaLanes;
use crate::element;
use crate::fault::Fault;
use crate::flight::{Flight, Lanes, launch};
use crate::gather;
use crate::memory::Cap;
use crate::module::{Metering, Module, Output, RunOptions, Value, Values};
use crate::process;
use crate::settings::Cache;
use crate::stopwatch::Stopwatch;
use crate::tensor::Tensor;

/// A module on a device, and how to run it.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) module: Arc<Module>,
    pub(crate) place: Place,
    pub(crate) options: RunOptions,
    pub(crate) intra_op_threads: i32,
}

/// Where a runner works.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// On the calling thread.
    Processor,
    /// On a CUDA device, which works by itself.
    Cuda(Gpu),
}

/// A CUDA device as one instance has it.
#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    pub(crate) lanes: CudaLanes,
    pub(crate) cap: Option<Arc<Cap>>,
    pub(crate) cache: Cache,
}

/// An output before it has a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// `None` for element types V2 has no name for.
    pub(crate) datatype: Option<DataType>,
    /// Empty for a scalar.
    pub(crate) sizes: Vec<i64>,
    pub(crate) data: Bytes,
}

/// A call that has begun.
#[derive(Debug)]
pub(crate) enum Call {
    /// It is over.
    Done(Vec<Outcome>, Timing),
    /// The device works on it.
    Queued(QueuedCall),
}

/// A call that a device works on.
#[derive(Debug)]
pub(crate) struct QueuedCall {
    flight: Flight<CudaLanes>,
    gpu: Gpu,
    /// Time spent on gathering inputs and queueing their copies.
    input: Duration,
}

impl Runner {
    /// Runs one batch. `columns` come in the binding's order; `None` for an input nobody sent. The
    /// output part of the timing is the caller's to add to.
    pub(crate) fn run(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
    ) -> Result<(Vec<Outcome>, Timing), ModelError> {
        match self.start(binding, columns)? {
            Call::Done(outcomes, timing) => Ok((outcomes, timing)),
            Call::Queued(call) => call.finish(),
        }
    }

    /// As [`Runner::run`], without waiting for a device that works by itself.
    pub(crate) fn start(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
    ) -> Result<Call, ModelError> {
        process::set_intra_op_threads(self.intra_op_threads).map_err(Fault::of_run)?;
        match &self.place {
            Place::Processor => self.run_here(binding, columns),
            Place::Cuda(gpu) => self.queue(gpu, binding, columns).map(Call::Queued),
        }
    }

    fn run_here(&self, binding: &Binding, columns: &[Option<&Column>]) -> Result<Call, ModelError> {
        let (mut stopwatch, mut timing) = (Stopwatch::start(), Timing::default());
        let values = self.values(binding, columns)?;
        timing.input = stopwatch.lap();
        let run = self
            .module
            .run(&values, self.options, Metering::Off, None)
            .map_err(Fault::of_run)?;
        timing.infer = stopwatch.lap();
        Ok(Call::Done(outcomes(run.outputs), timing))
    }

    fn queue(
        &self,
        gpu: &Gpu,
        binding: &Binding,
        columns: &[Option<&Column>],
    ) -> Result<QueuedCall, ModelError> {
        let inputs = columns.iter().flatten().map(|column| gather::bytes(column));
        let inputs = inputs.sum::<usize>() as u64;
        gpu.admit(inputs)?;
        let (input, peak) = (Cell::new(Duration::ZERO), Cell::new(0));
        let (metering, stream) = (gpu.metering(), Some(gpu.lanes.compute()));
        let upload = || {
            let mut stopwatch = Stopwatch::start();
            let values = self.values(binding, columns);
            input.set(stopwatch.lap());
            values
        };
        let flight = launch(&gpu.lanes, upload, |values: Values| {
            let run = self.module.run(&values, self.options, metering, stream)?;
            peak.set(run.peak);
            Ok(run.outputs)
        })?;
        gpu.record(inputs, peak.get())?;
        Ok(QueuedCall {
            flight,
            gpu: gpu.clone(),
            input: input.get(),
        })
    }

    fn values(&self, binding: &Binding, columns: &[Option<&Column>]) -> Result<Values, ModelError> {
        match binding {
            Binding::Positional {
                argument_of,
                arguments,
            } => {
                let mut values: Vec<Value> = (0..*arguments).map(|_| Value::Absent).collect();
                for (&index, column) in argument_of.iter().zip(columns) {
                    if let Some(column) = column {
                        let keep = self.module.arguments()[index].written_to;
                        values[index] = self.value(column, keep)?;
                    }
                }
                Ok(Values::Positional(values))
            }
            Binding::Dict(keys) => {
                let keep = self.module.arguments()[0].written_to;
                let mut entries = Vec::with_capacity(keys.len());
                for (key, column) in keys.iter().zip(columns) {
                    if let Some(column) = column {
                        entries.push((key.clone(), self.value(column, keep)?));
                    }
                }
                Ok(Values::Dict(entries))
            }
        }
    }

    /// The column as the model takes it, on the model's device. Where the model writes to its input the
    /// request's bytes must be kept: they may be sent again, alone, if the batch fails.
    fn value(&self, column: &Column, keep: bool) -> Result<Value, ModelError> {
        let (Some(element_type), Some(size)) = (
            element::element_type(column.datatype),
            column.datatype.size(),
        ) else {
            return Ok(Value::Strings(gather::strings(column)));
        };
        gather::check(column, size).map_err(ModelError::Failed)?;
        let sizes: Vec<i64> = column.shape.signed().collect();
        let fill = |out: &mut _| gather::gather(column, size, out);
        let tensor = match &self.place {
            Place::Cuda(gpu) => gpu.lanes.upload(element_type, &sizes, fill),
            Place::Processor => match gather::alone(column).filter(|_| !keep) {
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
    fn admit(&self, inputs: u64) -> Result<(), ModelError> {
        self.cap.as_ref().map_or(Ok(()), |cap| cap.admit(inputs))
    }

    fn metering(&self) -> Metering {
        self.cap.as_ref().map_or(Metering::Off, |_| Metering::On)
    }

    fn record(&self, inputs: u64, peak: u64) -> Result<(), ModelError> {
        let cap = self.cap.as_ref();
        cap.map_or(Ok(()), |cap| cap.record(inputs, peak))
    }
}

impl QueuedCall {
    /// Waits for the device. The output part of the timing is the caller's to add to.
    pub(crate) fn finish(self) -> Result<(Vec<Outcome>, Timing), ModelError> {
        let landed = self.flight.finish()?;
        match self.gpu.cache {
            Cache::Keep => {}
            Cache::Empty => self.gpu.lanes.reclaim().map_err(Fault::of_run)?,
        }
        let timing = Timing {
            input: self.input,
            infer: landed.infer,
            output: landed.output,
        };
        Ok((outcomes(landed.outputs), timing))
    }
}

impl Outcome {
    /// Its sizes as a shape.
    pub(crate) fn shape(&self) -> Result<Shape, ModelError> {
        Shape::new(&self.sizes).map_err(|error| ModelError::Failed(error.to_string()))
    }
}

fn outcomes(outputs: Vec<Output>) -> Vec<Outcome> {
    outputs.into_iter().map(outcome).collect()
}

fn outcome(output: Output) -> Outcome {
    match output {
        Output::Tensor(tensor) => Outcome {
            datatype: element::datatype(tensor.element_type()),
            sizes: tensor.sizes(),
            data: tensor.into_bytes(),
        },
        Output::Strings { data, count } => Outcome {
            datatype: Some(DataType::Bytes),
            sizes: vec![count as i64],
            data,
        },
    }
}

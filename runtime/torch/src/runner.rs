//! One call of a module on its device: arguments in, named outputs out.

use std::sync::Arc;

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, Device, ModelError, Timing};

use crate::binding::Binding;
use crate::element;
use crate::fault::Fault;
use crate::gather;
use crate::module::{Module, Output, RunOptions, Value, Values};
use crate::process;
use crate::stopwatch::Stopwatch;
use crate::tensor::Tensor;

/// A module on a device, and how to run it.
#[derive(Clone, Debug)]
pub(crate) struct Runner {
    pub(crate) module: Arc<Module>,
    pub(crate) device: Device,
    pub(crate) options: RunOptions,
    pub(crate) intra_op_threads: i32,
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

impl Runner {
    /// Runs one batch. `columns` come in the binding's order; `None` for an input nobody sent. The
    /// output part of the timing is the caller's to fill in.
    pub(crate) fn run(
        &self,
        binding: &Binding,
        columns: &[Option<&Column>],
    ) -> Result<(Vec<Outcome>, Timing), ModelError> {
        let (mut stopwatch, mut timing) = (Stopwatch::start(), Timing::default());
        process::set_intra_op_threads(self.intra_op_threads).map_err(Fault::of_run)?;
        let values = self.values(binding, columns)?;
        timing.input = stopwatch.lap();
        let outputs = self
            .module
            .run(&values, self.options)
            .map_err(Fault::of_run)?;
        timing.infer = stopwatch.lap();
        Ok((outputs.into_iter().map(outcome).collect(), timing))
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

    /// The column as the model takes it. Where the model writes to its input the request's bytes
    /// must be kept: they may be sent again, alone, if the batch fails.
    fn value(&self, column: &Column, keep: bool) -> Result<Value, ModelError> {
        let (Some(element_type), Some(size)) = (
            element::element_type(column.datatype),
            column.datatype.size(),
        ) else {
            return Ok(Value::Strings(gather::strings(column)));
        };
        gather::check(column, size).map_err(ModelError::Failed)?;
        let sizes: Vec<i64> = column.shape.signed().collect();
        let tensor = match gather::alone(column).filter(|_| !keep) {
            Some(data) => Tensor::borrowed(element_type, &sizes, size, data),
            None => Ok(None),
        };
        let tensor = match tensor.map_err(Fault::of_run)? {
            Some(borrowed) => borrowed,
            None => Tensor::filled(element_type, &sizes, |out| {
                gather::gather(column, size, out);
            })
            .map_err(Fault::of_run)?,
        };
        self.on_device(tensor)
            .map(Value::Tensor)
            .map_err(Fault::of_run)
    }

    fn on_device(&self, tensor: Tensor) -> Result<Tensor, Fault> {
        match self.device {
            Device::Cpu => Ok(tensor),
            Device::Cuda(index) => tensor.to_cuda(index),
        }
    }
}

impl Outcome {
    /// Its sizes as a shape.
    pub(crate) fn shape(&self) -> Result<Shape, ModelError> {
        Shape::new(&self.sizes).map_err(|error| ModelError::Failed(error.to_string()))
    }
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

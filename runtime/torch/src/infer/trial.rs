//! Trial runs on generated inputs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, LoadError, ModelSource, Part, TensorConfig};

use crate::binding::{self, Binding};
use crate::element;
use crate::module::{ArgumentKind, Returned};
use crate::runner::{RunOutput, Runner};

/// The rows of a trial's inputs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// No batch dimension is added to the inputs.
    None,
    /// A range of an endless sequence of rows, all different if the datatype allows it.
    Range(Range<usize>),
}

/// Size that replaces a variable dimension.
const VARIABLE_SIZE: i64 = 4;

/// A module with the inputs to try on it.
pub(crate) struct Trial<'a> {
    runner: &'a Runner,
    binding: Binding,
    inputs: &'a [TensorConfig],
}

impl<'a> Trial<'a> {
    pub(crate) fn new(
        source: &ModelSource,
        runner: &'a Runner,
        inputs: &'a [TensorConfig],
    ) -> Result<Self, LoadError> {
        Ok(Self {
            runner,
            binding: binding::inputs(&source.name, runner.module.arguments(), inputs)?,
            inputs,
        })
    }

    /// Runs once; `stretch` is the dimension of each input to make larger. The error is libtorch's.
    pub(crate) fn run(&self, rows: Rows, stretch: Option<usize>) -> Result<Vec<RunOutput>, String> {
        let inputs = self.inputs.iter().enumerate();
        let columns = inputs
            .map(|(index, input)| column(input, &rows, stretch.filter(|_| self.stretches(index))));
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        self.run_on(&columns).map(|(outcomes, _)| outcomes)
    }

    /// Checks whether an input's dimensions may vary: those of one number cannot.
    pub(crate) fn stretches(&self, input: usize) -> bool {
        match &self.binding {
            Binding::Dict(_) => true,
            Binding::Positional { argument_of, .. } => {
                let argument = &self.runner.module.arguments()[argument_of[input]];
                !matches!(argument.kind, ArgumentKind::Scalar(_))
            }
        }
    }

    /// What the model returns.
    pub(crate) fn returned(&self) -> &Returned {
        self.runner.module.returned()
    }

    /// Runs once on the columns given; also returns the time that the model took.
    pub(crate) fn run_on(&self, columns: &[Column]) -> Result<(Vec<RunOutput>, Duration), String> {
        let columns: Vec<Option<&Column>> = columns.iter().map(Some).collect();
        // Each trial, and the first request after them, meets the model as it was saved.
        let rehearsal = self.runner.rehearsal().map_err(|fault| fault.to_string())?;
        let outcomes = rehearsal
            .as_ref()
            .unwrap_or(self.runner)
            .run(&self.binding, &columns);
        outcomes
            .map(|(outcomes, timing)| (outcomes, timing.infer))
            .map_err(|error| error.to_string())
    }
}

/// Generates rows of each input; `stretch` is the dimension of each to make larger.
pub(crate) fn columns(
    inputs: &[TensorConfig],
    rows: &Rows,
    stretch: Option<usize>,
) -> Result<Vec<Column>, String> {
    let columns = inputs.iter().map(|input| column(input, rows, stretch));
    columns.collect()
}

fn column(input: &TensorConfig, rows: &Rows, stretch: Option<usize>) -> Result<Column, String> {
    let dims = input.reshape.as_ref().unwrap_or(&input.dims);
    let inner: Vec<i64> = dims
        .iter()
        .enumerate()
        .map(|(axis, &dim)| {
            let dim = if dim < 0 { VARIABLE_SIZE } else { dim };
            if stretch == Some(axis) { dim * 2 } else { dim }
        })
        .collect();
    let (range, shape) = match rows {
        Rows::None => (0..1, inner.clone()),
        Rows::Range(range) => (
            range.clone(),
            [&[range.len() as i64], inner.as_slice()].concat(),
        ),
    };
    let shape = Shape::new(&shape).map_err(|error| error.to_string())?;
    let elements = shape.elements() / range.len().max(1);
    let data =
        range.flat_map(|row| (0..elements).flat_map(move |at| generate(input.datatype, row, at)));
    Ok(Column {
        name: Arc::from(input.name.as_str()),
        datatype: input.datatype,
        parts: vec![Part {
            shape: shape.clone(),
            data: Bytes::from_iter(data),
        }],
        shape,
        pad: 0.0,
    })
}

/// Generates an element that most models accept: floats in (0, 1], integers 0 or 1, because they may be token
/// ids or masks; each row starts with a 1, because a mask of zeros has no meaning.
fn generate(datatype: DataType, row: usize, at: usize) -> Vec<u8> {
    match datatype {
        DataType::Bytes => {
            let text = "ab".repeat(1 + (row + at) % 3);
            [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
        }
        DataType::Fp16 | DataType::Fp32 | DataType::Fp64 | DataType::Bf16 => {
            element::encode(datatype, ((row * 7 + at * 3) % 11 + 1) as f64 / 11.0)
        }
        DataType::Bool
        | DataType::Uint8
        | DataType::Uint16
        | DataType::Uint32
        | DataType::Uint64
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64 => {
            let bit = if at == 0 { 1 } else { (row + at) % 2 };
            element::encode(datatype, bit as f64)
        }
    }
}

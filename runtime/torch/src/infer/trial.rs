//! Trial runs on made-up inputs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_protocol::{DataType, Shape};
use weir_runtime::backend::{Column, LoadError, ModelSource, Part, TensorConfig};

use crate::binding::{self, Binding};
use crate::element;
use crate::runner::{Outcome, Runner};

/// Which rows a trial sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The inputs as they are, without a batch dimension of ours.
    None,
    /// These of an endless sequence of rows, all different where the datatype allows.
    Range(Range<usize>),
}

/// Stands for a dimension that may be of any size.
const ANY: i64 = 4;

/// A module and the inputs to try on it.
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

    /// Runs once; with `stretch`, that dimension of each input is made larger. The error is libtorch's.
    pub(crate) fn run(&self, rows: Rows, stretch: Option<usize>) -> Result<Vec<Outcome>, String> {
        let columns = columns(self.inputs, &rows, stretch)?;
        self.run_on(&columns).map(|(outcomes, _)| outcomes)
    }

    /// Runs once on columns made before; also tells how long the model took.
    pub(crate) fn run_on(&self, columns: &[Column]) -> Result<(Vec<Outcome>, Duration), String> {
        let columns: Vec<Option<&Column>> = columns.iter().map(Some).collect();
        let outcomes = self.runner.run(&self.binding, &columns);
        outcomes
            .map(|(outcomes, timing)| (outcomes, timing.infer))
            .map_err(|error| error.to_string())
    }
}

/// Made-up rows of each input; with `stretch`, that dimension of each is larger.
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
            let dim = if dim < 0 { ANY } else { dim };
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
        range.flat_map(|row| (0..elements).flat_map(move |at| made_up(input.datatype, row, at)));
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

/// An element that most models take: floats in (0, 1], integers 0 or 1, for they may be token ids or
/// masks; each row starts with a 1, for a mask of zeros means nothing.
fn made_up(datatype: DataType, row: usize, at: usize) -> Vec<u8> {
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

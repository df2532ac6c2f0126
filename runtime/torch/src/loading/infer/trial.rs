//! Trial runs of a model on generated inputs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_protocol::{DataType, Shape, Tensor};
use weir_runtime::backend::{Column, LoadError, ModelSource, RequestTensor, TensorConfig};

use super::samples;
use crate::execution::binding::{self, Binding, model_dims};
use crate::execution::runner::{RunOutput, Runner};
use crate::libtorch::element;
use crate::loading::sandbox::limited;
use crate::module::{ArgumentKind, Returned};

/// The rows of a trial's inputs, and whether they have a batch dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rows {
    /// The first row of the sequence, without a batch dimension.
    None,
    /// The row of this index in the sequence, without a batch dimension.
    Other(usize),
    /// A range of an endless sequence of rows, all different if the datatype allows it, with a batch dimension.
    Range(Range<usize>),
}

impl Rows {
    /// Returns the rows of the sequence whose elements are used.
    fn range(&self) -> Range<usize> {
        match self {
            Self::None => 0..1,
            Self::Other(row) => *row..*row + 1,
            Self::Range(range) => range.clone(),
        }
    }
}

/// The dimensions to double in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stretch {
    /// This dimension of every input that has it.
    Axis(usize),
    /// This dimension of one input: the input's index, then the dimension's.
    AxisOf(usize, usize),
    /// Every dimension of every input.
    All,
}

/// The elements of a trial's inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fill {
    /// The values of the example beside the model.
    Example,
    /// Floats in (0, 1] and integers 0 and 1, different in each row.
    Varied,
    /// The elements of `Varied`, but with this number for each integer, so that sequence lengths match the sequence.
    Counts(i64),
    /// Ones, or strings of one character: some models reject lengths of zero, or masks that hide everything.
    Ones,
    /// Zeros, or empty strings.
    Zeros,
    /// 100 in floats, because some models return an output only above a threshold. Integers are 1, because 100 may be
    /// an out-of-range index.
    Hundreds,
    /// -1 in floats, and 1 in integers.
    Negative,
}

/// Integer that replaces 0 and 1 in inputs, to detect outputs whose size depends on a value, such as a number of
/// classes or a sequence length.
pub(crate) const LARGER_INTEGER: i64 = 8;

/// Size that replaces a variable dimension.
const VARIABLE_SIZE: i64 = 4;

/// Largest input in bytes: the default limit of a request. A mistyped dimension could otherwise take all memory of a
/// server that also serves other models.
const MAX_BYTES: usize = 1 << 30;

/// A module with the inputs to try.
pub(crate) struct Trial<'a> {
    runner: &'a Runner,
    binding: Binding,
    inputs: &'a [TensorConfig],
    fill: Fill,
    /// The example beside the model, for [`Fill::Example`].
    example: Option<&'a [Tensor]>,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(
        source: &'a ModelSource,
        runner: &'a Runner,
        inputs: &'a [TensorConfig],
    ) -> Result<Self, LoadError> {
        let fill = match &source.example {
            Some(_) if source.inputs.is_empty() => Fill::Example,
            Some(_) | None => Fill::Varied,
        };
        Self::of(source, runner, inputs, fill)
    }

    /// Makes a trial with the given elements.
    pub(crate) fn of(
        source: &'a ModelSource,
        runner: &'a Runner,
        inputs: &'a [TensorConfig],
        fill: Fill,
    ) -> Result<Self, LoadError> {
        Ok(Self {
            runner,
            binding: binding::inputs(&source.name, runner.module.arguments(), inputs)?,
            inputs,
            fill,
            example: source.example.as_deref().filter(|_| fill == Fill::Example),
        })
    }

    /// Returns the same trial on other inputs, of the same number.
    pub(crate) fn on<'b>(&'b self, inputs: &'b [TensorConfig]) -> Trial<'b> {
        Trial { runner: self.runner, binding: self.binding.clone(), inputs, fill: self.fill, example: self.example }
    }

    /// Returns the same trial with generated elements.
    pub(crate) fn with(&self, fill: Fill) -> Trial<'_> {
        Trial { runner: self.runner, binding: self.binding.clone(), inputs: self.inputs, fill, example: None }
    }

    /// Returns true if the model runs on the processor.
    pub(crate) fn is_on_processor(&self) -> bool {
        self.runner.placement.is_processor()
    }

    /// Returns the inputs, in which every dimension has a size.
    pub(crate) fn inputs(&self) -> &[TensorConfig] {
        self.inputs
    }

    /// Returns true if shapes come from an example beside the model or from tracing.
    pub(crate) fn has_example(&self) -> bool {
        let mut arguments = self.runner.module.arguments().iter();
        self.example.is_some() || arguments.any(|argument| argument.example.is_some())
    }

    /// Generates rows of the inputs.
    pub(crate) fn columns(&self, rows: &Rows) -> Result<Vec<Column>, String> {
        let columns = self.inputs.iter().map(|input| column(input, rows, (None, self.fill)));
        Ok(self.filled(columns.collect::<Result<_, _>>()?, rows))
    }

    /// Replaces the elements of generated columns by the example's.
    fn filled(&self, columns: Vec<Column>, rows: &Rows) -> Vec<Column> {
        let Some(example) = self.example else {
            return columns;
        };
        let of_example = |column: Column| match example.iter().find(|tensor| tensor.name() == &*column.name) {
            Some(example) => samples::fill(column, example, rows.range()),
            None => column,
        };
        columns.into_iter().map(of_example).collect()
    }

    /// Runs once; `stretch` is the dimension to double in each input. The error is libtorch's message.
    pub(crate) fn run(&self, rows: Rows, stretch: Option<usize>) -> Result<Vec<RunOutput>, String> {
        let inputs = self.inputs.iter().enumerate();
        let columns = inputs.map(|(index, input)| {
            let stretch = stretch.filter(|_| self.stretches(index));
            column(input, &rows, (stretch, self.fill))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        self.run_on(&self.filled(columns, &rows)).map(|(outcomes, _)| outcomes)
    }

    /// Runs once with some dimensions doubled. The error is libtorch's message.
    pub(crate) fn stretched(&self, rows: &Rows, stretch: Stretch) -> Result<Vec<RunOutput>, String> {
        let inputs = self.inputs.iter().enumerate();
        let columns = inputs.map(|(index, input)| {
            let larger = if self.stretches(index) { larger(input, index, stretch) } else { Ok(input.clone()) };
            larger.and_then(|input| column(&input, rows, (None, self.fill)))
        });
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let ran = match self.run_on(&self.filled(columns.clone(), rows)) {
            // In a longer row some generated integers are zero, which is not a valid length, so ones are tried too.
            Err(_) if self.example.is_none() && columns.iter().any(is_integer) => {
                self.run_on(&columns.into_iter().map(of_ones).collect::<Vec<_>>())
            }
            ran => ran,
        };
        ran.map(|(outcomes, _)| outcomes)
    }

    /// Returns true if an input's dimensions may vary; the single element of a number may not.
    pub(crate) fn stretches(&self, input: usize) -> bool {
        match &self.binding {
            Binding::Dict(_) => true,
            Binding::Positional { argument_of, .. } => {
                let argument = &self.runner.module.arguments()[argument_of[input]];
                !matches!(argument.kind, ArgumentKind::Scalar(_))
            }
        }
    }

    /// Returns the outputs of the model, as its type describes them.
    pub(crate) fn returned(&self) -> &Returned {
        self.runner.module.returned()
    }

    /// Runs once on the given columns. Also returns the time that the model took.
    pub(crate) fn run_on(&self, columns: &[Column]) -> Result<(Vec<RunOutput>, Duration), String> {
        let columns: Vec<Option<&Column>> = columns.iter().map(Some).collect();
        // Each trial, and the first request after the trials, must see the model in its saved state.
        let warm_up_copy = self.runner.warm_up_copy().map_err(|fault| fault.to_string())?;
        let rows = columns.first().copied().flatten();
        let rows = rows.and_then(|column| column.shape.dims().first().copied()).unwrap_or(1);
        let runner = warm_up_copy.as_ref().unwrap_or(self.runner);
        let outcomes = limited(rows, || runner.run(&self.binding, &columns));
        outcomes.map(|(outcomes, timing)| (outcomes, timing.infer)).map_err(|error| error.to_string())
    }
}

fn is_integer(column: &Column) -> bool {
    matches!(column.datatype, DataType::Int32 | DataType::Int64)
}

/// Returns the column with 1 for each integer.
fn of_ones(mut column: Column) -> Column {
    if is_integer(&column) {
        let one = element::encode(column.datatype, 1.0);
        for part in &mut column.parts {
            part.data = Bytes::from(one.repeat(part.shape.elements()));
        }
    }
    column
}

/// Returns the input with the dimensions of `stretch` doubled.
fn larger(input: &TensorConfig, index: usize, stretch: Stretch) -> Result<TensorConfig, String> {
    let mut larger = input.clone();
    let dims = larger.reshape.as_mut().unwrap_or(&mut larger.dims);
    for (axis, dim) in dims.iter_mut().enumerate() {
        let grows = match stretch {
            Stretch::Axis(chosen) => chosen == axis,
            Stretch::AxisOf(of, chosen) => of == index && chosen == axis,
            Stretch::All => true,
        };
        if grows {
            let own = if *dim < 0 { VARIABLE_SIZE } else { *dim };
            *dim = own.checked_mul(2).ok_or("a dimension is too large")?;
        }
    }
    Ok(larger)
}

/// Generates rows of an input; `stretch` is the dimension to double.
fn column(input: &TensorConfig, rows: &Rows, (stretch, fill): (Option<usize>, Fill)) -> Result<Column, String> {
    let inner: Vec<i64> = model_dims(input)
        .iter()
        .enumerate()
        .map(|(axis, &dim)| {
            let dim = if dim < 0 { VARIABLE_SIZE } else { dim };
            if stretch == Some(axis) { dim * 2 } else { dim }
        })
        .collect();
    let (range, shape) = match rows {
        Rows::None => (0..1, inner.clone()),
        Rows::Other(row) => (*row..*row + 1, inner.clone()),
        Rows::Range(range) => (range.clone(), [&[range.len() as i64], inner.as_slice()].concat()),
    };
    let shape = Shape::new(&shape).map_err(|error| error.to_string())?;
    // A generated string takes about eight bytes: four for its length, and its text.
    let size = input.datatype.size().unwrap_or(8);
    if shape.elements().saturating_mul(size) > MAX_BYTES {
        return Err(format!("input '{}' of shape {shape} is too large to try", input.name));
    }
    let elements = shape.elements() / range.len().max(1);
    let data = range.flat_map(|row| {
        (0..elements).flat_map(move |at| {
            let value = Position { row, at, of: elements };
            element(input.datatype, value, fill)
        })
    });
    Ok(Column {
        name: Arc::from(input.name.as_str()),
        datatype: input.datatype,
        parts: vec![RequestTensor { datatype: input.datatype, shape: shape.clone(), data: Bytes::from_iter(data) }],
        shape,
        pad: 0.0,
    })
}

/// The index of an element in its row, with the row's index and number of elements.
#[derive(Clone, Copy, Debug)]
struct Position {
    row: usize,
    at: usize,
    of: usize,
}

fn element(datatype: DataType, position: Position, fill: Fill) -> Vec<u8> {
    let real = matches!(datatype, DataType::Fp16 | DataType::Fp32 | DataType::Fp64 | DataType::Bf16);
    let text = datatype == DataType::Bytes;
    let number = |real_value: f64| {
        let value = if real { real_value } else { 1.0 };
        element::encode(datatype, value)
    };
    match fill {
        // An empty string is encoded as its length: four zero bytes.
        Fill::Zeros => vec![0; datatype.size().unwrap_or(4)],
        Fill::Ones | Fill::Hundreds | Fill::Negative if text => vec![1, 0, 0, 0, b'1'],
        Fill::Ones => number(1.0),
        Fill::Hundreds => number(100.0),
        Fill::Negative => number(-1.0),
        Fill::Counts(count) if !real && !text && datatype != DataType::Bool => element::encode(datatype, count as f64),
        Fill::Counts(_) | Fill::Varied | Fill::Example => generate(datatype, position),
    }
}

/// Generates an element that most models accept: floats in (0, 1], and integers 0 or 1, because they may be token ids
/// or masks. Each row starts with a 1, because a mask of zeros would hide the whole row.
fn generate(datatype: DataType, Position { row, at, of }: Position) -> Vec<u8> {
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
            let value = match (of, at) {
                (0 | 1, _) => 1 + row % 2, // an id or a length of its own
                (_, 0) => 1,
                _ => (row + at) % 2,
            };
            element::encode(datatype, value as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inputs_beyond_what_requests_have_are_not_made() {
        let input = |dims: &[i64]| TensorConfig::new("x", DataType::Fp32, dims);
        let made = |dims: &[i64]| column(&input(dims), &Rows::Range(0..2), (None, Fill::Varied));
        let refused = made(&[1 << 40]);
        assert_eq!(refused.map(drop).unwrap_err(), "input 'x' of shape [2,1099511627776] is too large to try");
        assert_eq!(made(&[3, -1]).unwrap().shape.dims(), [2, 3, 4]);
    }

    #[test]
    fn an_element_fills_its_datatype() {
        let position = Position { row: 1, at: 1, of: 3 };
        let all = [Fill::Varied, Fill::Counts(8), Fill::Ones, Fill::Zeros, Fill::Hundreds, Fill::Negative];
        for datatype in DataType::ALL {
            for fill in all {
                let element = element(datatype, position, fill);
                match datatype.size() {
                    Some(size) => assert_eq!(element.len(), size, "{datatype} {fill:?}"),
                    None => assert!(element.len() >= 4, "{fill:?}"),
                }
            }
        }
        let counted = element(DataType::Int64, position, Fill::Counts(8));
        assert_eq!(counted, 8_i64.to_le_bytes());
    }
}

//! Candidate inputs for trial runs.

use weir_protocol::{DataType, Tensor};
use weir_runtime::backend::{LoadError, ModelSource, Signature, TensorConfig};

use super::combine::{self, Sizes};
use super::patterns::{self, Dim, Pattern};
use crate::execution::runner::Runner;
use crate::libtorch::element;
use crate::module::hints::Hint;
use crate::module::{Argument, ArgumentKind, Example, Module, ScalarKind};

/// Dimensions of an image: channels, height and width.
const IMAGE_RANK: usize = 3;

/// Inputs for one trial of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) inputs: Vec<TensorConfig>,
    /// Indices of inputs that the model concatenates, so that only the sum of their last dimensions is known.
    pub(super) parts: Vec<usize>,
}

/// Returns candidates with a batch dimension, which their dimensions leave out, for a model without configured inputs.
/// Returns none if an example has no batch dimension.
pub(super) fn batched(source: &ModelSource, module: &Module) -> Result<Vec<Candidate>, LoadError> {
    if let Some(example) = &source.example {
        return Ok(of_rows(example).into_iter().collect());
    }
    let arguments = required_arguments(source, module)?;
    if let Some(examples) = examples(&arguments) {
        let rows = examples.first().and_then(|(_, example)| example.sizes.first());
        let has_rows = |(_, other): &(_, &Example)| rows.is_some() && other.sizes.first() == rows;
        let batched = examples.iter().all(has_rows);
        return Ok(if batched { vec![Candidate::of(configured(&examples, 1))] } else { Vec::new() });
    }
    if arguments.is_empty() {
        return Ok(Vec::new()); // without inputs there are no rows
    }
    Ok(guessed(module, &arguments, Rank::OfRow))
}

/// Returns candidates for a model without a batch dimension.
pub(super) fn whole(source: &ModelSource, module: &Module) -> Result<Vec<Candidate>, LoadError> {
    if let Some(example) = &source.example {
        let inputs = example.iter().map(|tensor| of_tensor(tensor, 0));
        return Ok(vec![Candidate::of(inputs.collect())]);
    }
    let arguments = required_arguments(source, module)?;
    if let Some(examples) = examples(&arguments) {
        return Ok(vec![Candidate::of(configured(&examples, 0))]);
    }
    Ok(guessed(module, &arguments, Rank::WithRows))
}

/// Returns the inputs of an example if all of its tensors have the same number of rows.
fn of_rows(example: &[Tensor]) -> Option<Candidate> {
    let rows = example.first()?.shape().dims().first()?;
    let same = |tensor: &Tensor| tensor.shape().dims().first() == Some(rows);
    let inputs = example.iter().map(|tensor| of_tensor(tensor, 1));
    example.iter().all(same).then(|| Candidate::of(inputs.collect()))
}

fn of_tensor(tensor: &Tensor, skip: usize) -> TensorConfig {
    let dims: Vec<i64> = tensor.shape().signed().skip(skip).collect();
    let (dims, reshape) = match (skip, dims.as_slice()) {
        (1.., []) => (vec![1], Some(Vec::new())),
        _ => (dims, None),
    };
    TensorConfig { name: tensor.name().to_owned(), datatype: tensor.datatype(), dims, reshape, optional: false }
}

/// The meaning of a candidate's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rank {
    /// The dimensions of one row, without a batch dimension.
    OfRow,
    /// The dimensions of one row after a leading dimension, which most models require even if their rows cannot share a
    /// batch.
    WithRows,
}

/// Returns candidates from the hints that the code gives about each argument.
fn guessed(module: &Module, arguments: &[&Argument], rank: Rank) -> Vec<Candidate> {
    let patterns = patterns(module, arguments);
    let of_weights: Vec<i64> = module.parameters().iter().flat_map(|weight| weight.sizes.clone()).collect();
    let choices = combine::with_sizes(combine::choices(&patterns), &of_weights);
    let candidate = |(choice, sizes): (Vec<Pattern>, Sizes)| {
        let inputs = arguments.iter().zip(&choice);
        let inputs = inputs.map(|(argument, pattern)| guess(argument, pattern, sizes, rank));
        let is_part = |pattern: &Pattern| matches!(pattern.dims.last(), Some(Dim::Part(_)));
        let parts = choice.iter().enumerate().filter(|(_, pattern)| is_part(pattern));
        Candidate { inputs: inputs.collect(), parts: parts.map(|(index, _)| index).collect() }
    };
    choices.into_iter().map(candidate).collect()
}

/// Returns the patterns of each argument, in order. The first pattern of each argument that meets a weight is also
/// tried for the arguments that meet none, which may have the same shape.
fn patterns(module: &Module, arguments: &[&Argument]) -> Vec<Vec<Pattern>> {
    let hints = module.hints();
    let own = |argument: &Argument| -> Vec<Hint> {
        let position = module.arguments().iter().position(|other| other == argument);
        let hints = hints.iter().filter(|hint| Some(hint.argument) == position);
        hints.cloned().collect()
    };
    let own: Vec<Vec<Hint>> = arguments.iter().map(|argument| own(argument)).collect();
    let shaped = |hints: &&Vec<Hint>| hints.iter().any(|hint| !hint.sizes.is_empty());
    let other_rows: Vec<Pattern> =
        own.iter().filter(shaped).filter_map(|hints| patterns::of("", hints, &[]).into_iter().next()).collect();
    let of_argument = |(argument, hints): (&&Argument, &Vec<Hint>)| match argument.kind {
        ArgumentKind::Strings => vec![Pattern::strings()],
        ArgumentKind::TensorList => {
            let mut patterns = patterns::of(&argument.name, hints, &other_rows);
            // Detectors take lists of images.
            patterns.sort_by_key(|pattern| pattern.dims.len() != IMAGE_RANK);
            patterns
        }
        ArgumentKind::Tensor
        | ArgumentKind::TensorDict
        | ArgumentKind::Scalar(_)
        | ArgumentKind::Numbers(_)
        | ArgumentKind::Other => patterns::of(&argument.name, hints, &other_rows),
    };
    arguments.iter().zip(&own).map(of_argument).collect()
}

fn guess(argument: &Argument, pattern: &Pattern, sizes: Sizes, rank: Rank) -> TensorConfig {
    if let Some((datatype, dims)) = value_of(argument.kind) {
        return input(argument, datatype, dims);
    }
    let own = pattern.dims(sizes);
    match (argument.kind, rank) {
        // One element of the list.
        (ArgumentKind::TensorList, _) => input(argument, pattern.datatype, &own),
        (ArgumentKind::Strings, Rank::OfRow) => input(argument, pattern.datatype, &[1]),
        (ArgumentKind::Strings, Rank::WithRows) => input(argument, pattern.datatype, &[4]),
        (_, Rank::OfRow) => row(argument, pattern.datatype, &own),
        (_, Rank::WithRows) => input(argument, pattern.datatype, &[&[2], own.as_slice()].concat()),
    }
}

/// Returns the likely datatype and rank of an argument that no trial run has confirmed.
pub(super) fn likely(module: &Module, argument: &Argument) -> TensorConfig {
    if let Some((datatype, dims)) = value_of(argument.kind) {
        return input(argument, datatype, dims);
    }
    let patterns = patterns(module, &[argument]);
    let datatype =
        patterns.first().and_then(|patterns| patterns.first()).map_or(DataType::Fp32, |pattern| pattern.datatype);
    input(argument, datatype, &[-1])
}

/// Returns true if some argument that requests may set is one value for a whole batch, on which its requests would have
/// to agree, or a list of tensors, which has no rows.
pub(crate) fn has_one_value(source: &ModelSource, module: &Module) -> bool {
    let given = |argument: &&Argument| {
        let configured = |input: &TensorConfig| input.name == argument.name;
        !argument.optional || source.inputs.is_empty() || source.inputs.iter().any(configured)
    };
    let mut given = module.arguments().iter().filter(given);
    given.any(|argument| match argument.kind {
        ArgumentKind::Scalar(_) | ArgumentKind::Numbers(_) => true,
        ArgumentKind::TensorList => !argument.optional,
        ArgumentKind::Tensor | ArgumentKind::Strings | ArgumentKind::TensorDict | ArgumentKind::Other => false,
    })
}

/// Adds an optional input for each number or string with a default.
pub(crate) fn with_settings(source: &ModelSource, runner: &Runner, mut signature: Signature) -> Signature {
    if source.inputs.is_empty() {
        let arguments = runner.module.arguments().iter();
        let optional = arguments.filter(|argument| argument.optional);
        signature.inputs.extend(optional.filter_map(setting));
    }
    signature
}

fn setting(argument: &Argument) -> Option<TensorConfig> {
    let (datatype, dims) = value_of(argument.kind)?;
    Some(TensorConfig { optional: true, ..input(argument, datatype, dims) })
}

/// Returns datatype and dimensions of the input for a number, a string or a list of numbers.
fn value_of(kind: ArgumentKind) -> Option<(DataType, &'static [i64])> {
    match kind {
        ArgumentKind::Scalar(kind) => Some((datatype_of(kind), &[1])),
        ArgumentKind::Numbers(kind) => Some((datatype_of(kind), &[-1])),
        ArgumentKind::Tensor
        | ArgumentKind::Strings
        | ArgumentKind::TensorDict
        | ArgumentKind::TensorList
        | ArgumentKind::Other => None,
    }
}

/// Returns the widest datatype for a kind of number, so that no value is rounded.
fn datatype_of(kind: ScalarKind) -> DataType {
    match kind {
        ScalarKind::Int => DataType::Int64,
        ScalarKind::Float => DataType::Fp64,
        ScalarKind::Bool => DataType::Bool,
        ScalarKind::Str => DataType::Bytes,
    }
}

/// Returns the required arguments. Optional ones are left out, because their shapes are unknown.
pub(super) fn required_arguments<'a>(source: &ModelSource, module: &'a Module) -> Result<Vec<&'a Argument>, LoadError> {
    let required = module.arguments().iter().filter(|argument| !argument.optional);
    let required: Vec<&Argument> = required.collect();
    if required.iter().any(|argument| argument.kind == ArgumentKind::TensorDict) {
        return Err(LoadError::Config(format!(
            "the inputs of model '{}' cannot be inferred: it takes a Dict[str, Tensor], whose keys are \
             unknown; add its inputs and outputs to config.pbtxt",
            source.name
        )));
    }
    Ok(required)
}

/// Returns the shapes that the module was traced with, if they are known for every argument.
fn examples<'a>(arguments: &[&'a Argument]) -> Option<Vec<(&'a Argument, &'a Example)>> {
    let examples = arguments.iter().map(|argument| {
        let example = argument.example.as_ref()?;
        element::datatype(example.element_type)?;
        Some((*argument, example))
    });
    examples.collect::<Option<Vec<_>>>().filter(|examples| !examples.is_empty())
}

fn configured(examples: &[(&Argument, &Example)], skip: usize) -> Vec<TensorConfig> {
    let inputs = examples.iter().filter_map(|(argument, example)| {
        let datatype = element::datatype(example.element_type)?;
        let dims = &example.sizes[skip.min(example.sizes.len())..];
        Some(match skip {
            0 => input(argument, datatype, dims),
            _ => row(argument, datatype, dims),
        })
    });
    inputs.collect()
}

/// Returns the input for rows of these dimensions. A row that is a scalar has the shape [1] in requests.
fn row(argument: &Argument, datatype: DataType, dims: &[i64]) -> TensorConfig {
    match dims {
        [] => TensorConfig { reshape: Some(Vec::new()), ..input(argument, datatype, &[1]) },
        dims => input(argument, datatype, dims),
    }
}

fn input(argument: &Argument, datatype: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig::new(argument.name.clone(), datatype, dims)
}

impl Candidate {
    pub(super) fn of(inputs: Vec<TensorConfig>) -> Self {
        Self { inputs, parts: Vec::new() }
    }

    pub(super) fn datatypes(&self) -> Vec<DataType> {
        self.inputs.iter().map(|input| input.datatype).collect()
    }

    /// Returns true if each input has the datatype and dimensions of the other candidate's input, and one more dimension
    /// in front.
    pub(super) fn is_deeper_than(&self, other: &Self) -> bool {
        let deeper = |(own, other): (&TensorConfig, &TensorConfig)| {
            own.dims.len() == other.dims.len() + 1 && own.dims.ends_with(&other.dims)
        };
        self.datatypes() == other.datatypes() && self.inputs.iter().zip(&other.inputs).all(deeper)
    }

    /// Returns the same inputs with the batch dimension as an ordinary dimension.
    pub(super) fn with_rows(mut self) -> Self {
        for input in &mut self.inputs {
            let own = input.reshape.take().unwrap_or_else(|| input.dims.clone());
            input.dims = match input.datatype {
                DataType::Bytes => vec![4],
                _ => [&[2], own.as_slice()].concat(),
            };
        }
        self
    }

    /// Returns the candidate with corrected sizes of the concatenated inputs, if the run's error message shows their
    /// sum.
    pub(super) fn corrected(&self, complaint: &str) -> Option<Self> {
        let part = |index: &usize| self.inputs.get(*index)?.dims.last().copied();
        let sizes: Vec<i64> = self.parts.iter().filter_map(part).collect();
        let total = combine::corrected_part(sizes.iter().sum(), complaint)?;
        let count = i64::try_from(sizes.len()).ok().filter(|count| *count > 0 && *count <= total)?;
        let mut corrected = self.clone();
        for (position, index) in self.parts.iter().enumerate() {
            let one_more = i64::from((position as i64) < total % count);
            *corrected.inputs[*index].dims.last_mut()? = total / count + one_more;
        }
        Some(corrected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_share_what_is_left() {
        let vector = |name: &str, size| TensorConfig::new(name, DataType::Fp32, vec![size]);
        let candidate = Candidate { inputs: vec![vector("a", 14), vector("b", 14)], parts: vec![0, 1] };
        let complaint = "mat1 and mat2 shapes cannot be multiplied (2x28 and 15x3)";
        let corrected = candidate.corrected(complaint).unwrap();
        assert_eq!(corrected.inputs[0].dims, [8]);
        assert_eq!(corrected.inputs[1].dims, [7]);
        assert_eq!(candidate.corrected("no sizes"), None);
    }
}

//! Candidate inputs for trial runs.

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, ModelSource, Signature, TensorConfig};

use crate::element;
use crate::module::{Argument, ArgumentKind, Example, Module, ScalarKind};
use crate::runner::Runner;

/// Sides of images, in pixels, that models are commonly made for, smallest first: the first that works is
/// taken, and larger trials then show whether the model takes other sizes.
const SIDES: [i64; 7] = [8, 28, 32, 64, 96, 224, 299];

/// Shapes to try if the weights suggest none, in this order: a model that works on single elements takes any of
/// them, and then the simplest is right.
const SHAPES: [&[i64]; 3] = [&[4], &[3, 4], &[3, 8, 8]];

/// Dimensions of an image: channels, height and width.
const IMAGE_RANK: usize = 3;

/// Length to try for sequences.
const SEQUENCE: i64 = 8;

/// Returns candidates without their batch dimension; none if an example shows that there is no batch dimension.
pub(crate) fn batched(
    source: &ModelSource,
    module: &Module,
) -> Result<Vec<Vec<TensorConfig>>, LoadError> {
    if !source.inputs.is_empty() {
        return Ok(vec![source.inputs.clone()]);
    }
    let arguments = required_arguments(source, module)?;
    if let Some(examples) = examples(&arguments) {
        let rows = examples
            .first()
            .and_then(|(_, example)| example.sizes.first());
        let has_rows = |(_, other): &(_, &Example)| rows.is_some() && other.sizes.first() == rows;
        let batched = examples.iter().all(has_rows);
        return Ok(if batched {
            vec![configured(&examples, 1)]
        } else {
            Vec::new()
        });
    }
    let guesses = guesses(module).into_iter();
    Ok(guesses
        .map(|(datatype, dims)| uniform_inputs(&arguments, datatype, &dims, &[1]))
        .collect())
}

/// Returns candidates for a model without a batch dimension.
pub(crate) fn whole(
    source: &ModelSource,
    module: &Module,
) -> Result<Vec<Vec<TensorConfig>>, LoadError> {
    if !source.inputs.is_empty() {
        return Ok(vec![source.inputs.clone()]);
    }
    let arguments = required_arguments(source, module)?;
    if let Some(examples) = examples(&arguments) {
        return Ok(vec![configured(&examples, 0)]);
    }
    // Most models need a first dimension even if their rows depend on each other.
    let mut guesses = guesses(module);
    if arguments
        .iter()
        .any(|argument| argument.kind == ArgumentKind::TensorList)
    {
        // Detectors take lists of images.
        guesses.sort_by_key(|(_, dims)| dims.len() != IMAGE_RANK);
    }
    let guesses = guesses.into_iter().map(|(datatype, dims)| {
        let rows = [&[2], dims.as_slice()].concat();
        let mut inputs = uniform_inputs(&arguments, datatype, &rows, &[4]);
        for (input, argument) in inputs.iter_mut().zip(&arguments) {
            if argument.kind == ArgumentKind::TensorList {
                input.dims.clone_from(&dims); // one element, such as an image
            }
        }
        inputs
    });
    Ok(guesses.collect())
}

/// Checks whether an argument that requests may give is one value for a whole batch, whose requests would have to
/// agree on it, or a list of tensors, which has no rows.
pub(crate) fn has_one_value(source: &ModelSource, module: &Module) -> bool {
    let given = |argument: &&Argument| {
        let configured = |input: &TensorConfig| input.name == argument.name;
        !argument.optional || source.inputs.is_empty() || source.inputs.iter().any(configured)
    };
    let mut given = module.arguments().iter().filter(given);
    given.any(|argument| match argument.kind {
        ArgumentKind::Scalar(_) | ArgumentKind::Numbers(_) => true,
        ArgumentKind::TensorList => !argument.optional,
        ArgumentKind::Tensor
        | ArgumentKind::Strings
        | ArgumentKind::TensorDict
        | ArgumentKind::Other => false,
    })
}

/// Adds an optional input for each number or string with a default.
pub(crate) fn with_settings(
    source: &ModelSource,
    runner: &Runner,
    mut signature: Signature,
) -> Signature {
    if source.inputs.is_empty() {
        let arguments = runner.module.arguments().iter();
        let optional = arguments.filter(|argument| argument.optional);
        signature.inputs.extend(optional.filter_map(setting));
    }
    signature
}

fn setting(argument: &Argument) -> Option<TensorConfig> {
    let (datatype, dims) = value_of(argument.kind)?;
    Some(TensorConfig {
        optional: true,
        ..input(argument, datatype, dims)
    })
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

/// Returns the datatype that loses nothing.
fn datatype_of(kind: ScalarKind) -> DataType {
    match kind {
        ScalarKind::Int => DataType::Int64,
        ScalarKind::Float => DataType::Fp64,
        ScalarKind::Bool => DataType::Bool,
        ScalarKind::Str => DataType::Bytes,
    }
}

/// Returns the required arguments. Optional ones are left out, because their shapes are unknown.
fn required_arguments<'a>(
    source: &ModelSource,
    module: &'a Module,
) -> Result<Vec<&'a Argument>, LoadError> {
    let required = module
        .arguments()
        .iter()
        .filter(|argument| !argument.optional);
    let required: Vec<&Argument> = required.collect();
    if required
        .iter()
        .any(|argument| argument.kind == ArgumentKind::TensorDict)
    {
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
    examples
        .collect::<Option<Vec<_>>>()
        .filter(|examples| !examples.is_empty())
}

fn configured(examples: &[(&Argument, &Example)], skip: usize) -> Vec<TensorConfig> {
    let inputs = examples.iter().filter_map(|(argument, example)| {
        let datatype = element::datatype(example.element_type)?;
        Some(input(
            argument,
            datatype,
            &example.sizes[skip.min(example.sizes.len())..],
        ))
    });
    inputs.collect()
}

/// Makes inputs of one datatype and shape for all arguments but lists of strings.
fn uniform_inputs(
    arguments: &[&Argument],
    datatype: DataType,
    dims: &[i64],
    strings: &[i64],
) -> Vec<TensorConfig> {
    let inputs = arguments.iter().map(|argument| match argument.kind {
        ArgumentKind::Strings => input(argument, DataType::Bytes, strings),
        ArgumentKind::Tensor
        | ArgumentKind::TensorList
        | ArgumentKind::TensorDict
        | ArgumentKind::Other
        | ArgumentKind::Scalar(_)
        | ArgumentKind::Numbers(_) => match value_of(argument.kind) {
            Some((datatype, dims)) => input(argument, datatype, dims),
            None => input(argument, datatype, dims),
        },
    });
    inputs.collect()
}

fn input(argument: &Argument, datatype: DataType, dims: &[i64]) -> TensorConfig {
    TensorConfig {
        name: argument.name.clone(),
        datatype,
        dims: dims.to_vec(),
        reshape: None,
        optional: false,
    }
}

/// Returns datatypes and shapes for a module without an example: first those that its first weights suggest.
fn guesses(module: &Module) -> Vec<(DataType, Vec<i64>)> {
    let mut guesses = Vec::new();
    for Example {
        element_type,
        sizes,
    } in module.parameters().iter().take(1)
    {
        let datatype = element::datatype(*element_type).unwrap_or(DataType::Fp32);
        match sizes.as_slice() {
            [_, channels, _, _] => {
                guesses.extend(SIDES.map(|side| (datatype, vec![*channels, side, side])));
            }
            [_, channels, _] => guesses.push((datatype, vec![*channels, SIDES[2]])),
            [_, features] => {
                guesses.push((datatype, vec![*features]));
                guesses.push((DataType::Int64, vec![SEQUENCE])); // the weights may be a table of embeddings
                guesses.push((datatype, vec![SEQUENCE, *features]));
            }
            [features] => guesses.push((datatype, vec![*features])),
            _ => {}
        }
    }
    guesses.extend(SHAPES.map(|dims| (DataType::Fp32, dims.to_vec())));
    guesses.push((DataType::Int64, vec![SEQUENCE]));
    guesses
}

//! Inputs worth a trial.

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, ModelSource, TensorConfig};

use crate::element;
use crate::module::{Argument, Example, Kind, Module};

/// Sides of the pictures that models are commonly made for, the smallest first: the first that works
/// is taken, and a model that takes others too shows that by its larger trials.
const SIDES: [i64; 7] = [8, 28, 32, 64, 96, 224, 299];

/// What to try where weights say nothing, in this order: a model that works on single elements takes
/// any of them, and then the simplest is the right one.
const SHAPES: [&[i64]; 3] = [&[4], &[3, 4], &[3, 8, 8]];

/// The length to try for sequences.
const SEQUENCE: i64 = 8;

/// Inputs without their batch dimension; none where an example shows that there is none.
pub(crate) fn batched(
    source: &ModelSource,
    module: &Module,
) -> Result<Vec<Vec<TensorConfig>>, LoadError> {
    if !source.inputs.is_empty() {
        return Ok(vec![source.inputs.clone()]);
    }
    let arguments = nameable(source, module)?;
    if let Some(examples) = examples(&arguments) {
        let rows = examples
            .first()
            .and_then(|(_, example)| example.sizes.first());
        let share = |(_, other): &(_, &Example)| rows.is_some() && other.sizes.first() == rows;
        let shared = examples.iter().all(share);
        return Ok(if shared {
            vec![configured(&examples, 1)]
        } else {
            Vec::new()
        });
    }
    let guesses = guesses(module).into_iter();
    Ok(guesses
        .map(|(datatype, dims)| like(&arguments, datatype, &dims, &[1]))
        .collect())
}

/// Inputs as they are, for a model without batch dimension.
pub(crate) fn whole(
    source: &ModelSource,
    module: &Module,
) -> Result<Vec<Vec<TensorConfig>>, LoadError> {
    if !source.inputs.is_empty() {
        return Ok(vec![source.inputs.clone()]);
    }
    let arguments = nameable(source, module)?;
    if let Some(examples) = examples(&arguments) {
        return Ok(vec![configured(&examples, 0)]);
    }
    // Most models want a first dimension even where they do not keep their rows apart.
    let guesses = guesses(module).into_iter();
    let guesses = guesses.map(|(datatype, dims)| {
        like(
            &arguments,
            datatype,
            &[&[2], dims.as_slice()].concat(),
            &[4],
        )
    });
    Ok(guesses.collect())
}

/// The arguments that inputs must stand for. Optional ones are left out: what they want is unknown.
fn nameable<'a>(source: &ModelSource, module: &'a Module) -> Result<Vec<&'a Argument>, LoadError> {
    let wanted = module
        .arguments()
        .iter()
        .filter(|argument| !argument.optional);
    let wanted: Vec<&Argument> = wanted.collect();
    if wanted
        .iter()
        .any(|argument| argument.kind == Kind::TensorDict)
    {
        return Err(LoadError::Config(format!(
            "the inputs of model '{}' cannot be inferred: it takes a Dict[str, Tensor], whose keys only \
             config.pbtxt can name; write its inputs and outputs there",
            source.name
        )));
    }
    Ok(wanted)
}

/// What the module was traced with, where that is known of every argument.
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

/// All arguments alike, strings apart.
fn like(
    arguments: &[&Argument],
    datatype: DataType,
    dims: &[i64],
    strings: &[i64],
) -> Vec<TensorConfig> {
    let inputs = arguments.iter().map(|argument| match argument.kind {
        Kind::Strings => input(argument, DataType::Bytes, strings),
        Kind::Tensor | Kind::TensorDict | Kind::Other => input(argument, datatype, dims),
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

/// Datatypes and shapes for a module that carries no example: first what its first weights suggest.
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
                guesses.push((DataType::Int64, vec![SEQUENCE])); // it may be a table of embeddings
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

//! Infers the parts of a signature that a configuration leaves out, from the module and from trial runs on
//! generated inputs: names and count come from the schema; datatypes and dimensions from a traced module's
//! example, otherwise from candidates that its first weights suggest; outputs and the batch dimension from the
//! results of the trials.

mod candidates;
pub(crate) mod trial;

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, ModelSource, Signature, TensorConfig};

use crate::element;
use crate::runner::{RunOutput, Runner};
use trial::{Rows, Trial};

/// Largest batch of a model with an inferred batch dimension and no configured limit. Beyond it CPU models gain
/// little, and the engine chooses smaller batches where those are faster.
const DEFAULT_MAX_BATCH_SIZE: usize = 32;

/// Infers the signature; whatever the configuration has is kept.
pub(crate) fn signature(source: &ModelSource, runner: &Runner) -> Result<Signature, LoadError> {
    let mut last = "no candidate for its inputs was found".to_owned();
    if source.max_batch_size != Some(0) {
        for inputs in candidates::batched(source, &runner.module)? {
            let trial = Trial::new(source, runner, &inputs)?;
            match batched(source, &trial, &inputs) {
                Ok(signature) => return Ok(signature),
                Err(reason) => last = reason,
            }
        }
    }
    if source.max_batch_size.unwrap_or(0) == 0 {
        for inputs in candidates::whole(source, &runner.module)? {
            let trial = Trial::new(source, runner, &inputs)?;
            match whole(source, &trial, &inputs) {
                Ok(signature) => return Ok(signature),
                Err(reason) => last = reason,
            }
        }
    }
    without_trial(source, runner, &last)
}

/// Accepts a batch dimension if rows have the same outputs alone and together.
fn batched(
    source: &ModelSource,
    trial: &Trial<'_>,
    inputs: &[TensorConfig],
) -> Result<Signature, String> {
    let together = trial.run(Rows::Range(0..2), None)?;
    let apart = [
        trial.run(Rows::Range(0..1), None)?,
        trial.run(Rows::Range(1..2), None)?,
    ];
    for (index, both) in together.iter().enumerate() {
        let rows = [apart[0].get(index), apart[1].get(index)];
        if !independent(both, rows) {
            return Err(format!("output {index} mixes the rows of a batch"));
        }
    }
    let mut signature = observe(source, trial, inputs, &together, Rows::Range(0..2))?;
    signature.max_batch_size = source.max_batch_size.unwrap_or(DEFAULT_MAX_BATCH_SIZE);
    Ok(signature)
}

fn whole(
    source: &ModelSource,
    trial: &Trial<'_>,
    inputs: &[TensorConfig],
) -> Result<Signature, String> {
    let seen = trial.run(Rows::None, None)?;
    if let Some(index) = seen.iter().position(|outcome| outcome.sizes.is_empty()) {
        return Err(format!(
            "output {index} is a scalar which is not supported."
        ));
    }
    observe(source, trial, inputs, &seen, Rows::None)
}

/// Relative tolerance between two outputs: kernels for other batch sizes sum in another order, and half
/// precision keeps three digits.
const TOLERANCE: f64 = 1e-2;

fn independent(both: &RunOutput, apart: [Option<&RunOutput>; 2]) -> bool {
    let [Some(first), Some(second)] = apart else {
        return false;
    };
    if both.sizes.first() != Some(&2) || both.sizes[1..] != *first.sizes.get(1..).unwrap_or(&[0]) {
        return false;
    }
    let Some(datatype) = both.datatype else {
        return true; // refused later, with the output's name
    };
    let alone = [first.data.as_ref(), second.data.as_ref()].concat();
    let (together, alone) = (
        element::decode(datatype, &both.data),
        element::decode(datatype, &alone),
    );
    together.len() == alone.len()
        && together.iter().zip(&alone).all(|(left, right)| {
            left == right
                || (left.is_nan() && right.is_nan())
                || (left - right).abs() <= TOLERANCE * (1.0 + left.abs())
        })
}

/// Names the outputs, and finds the variable dimensions by making each larger in turn.
fn observe(
    source: &ModelSource,
    trial: &Trial<'_>,
    inputs: &[TensorConfig],
    seen: &[RunOutput],
    rows: Rows,
) -> Result<Signature, String> {
    let skip = usize::from(rows != Rows::None);
    let mut inputs = inputs.to_vec();
    let mut outputs = outputs(seen, skip)?;
    let rank = inputs
        .iter()
        .map(|input| input.dims.len())
        .max()
        .unwrap_or(0);
    for axis in 0..rank {
        let Ok(stretched) = trial.run(rows.clone(), Some(axis)) else {
            continue;
        };
        for (output, outcome) in outputs.iter_mut().zip(&stretched) {
            mark_varying(output, &outcome.sizes[skip.min(outcome.sizes.len())..]);
        }
        if source.inputs.is_empty() {
            for input in &mut inputs {
                let tensor = input.datatype != DataType::Bytes; // a row is one string
                if let Some(dim) = input.dims.get_mut(axis).filter(|_| tensor) {
                    *dim = -1;
                }
            }
        }
    }
    Ok(Signature {
        inputs,
        outputs: if source.outputs.is_empty() {
            outputs
        } else {
            source.outputs.clone()
        },
        max_batch_size: 0,
    })
}

fn outputs(seen: &[RunOutput], skip: usize) -> Result<Vec<TensorConfig>, String> {
    let output = |(index, outcome): (usize, &RunOutput)| {
        let datatype = outcome
            .datatype
            .ok_or_else(|| format!("output {index} has an element type that V2 does not have"))?;
        Ok(TensorConfig {
            name: format!("OUTPUT__{index}"),
            datatype,
            dims: if datatype == DataType::Bytes && skip > 0 {
                vec![1] // a list of strings, one to each row
            } else {
                outcome.sizes[skip.min(outcome.sizes.len())..].to_vec()
            },
            reshape: None,
            optional: false,
        })
    };
    seen.iter().enumerate().map(output).collect()
}

fn mark_varying(output: &mut TensorConfig, stretched: &[i64]) {
    for (dim, other) in output.dims.iter_mut().zip(stretched) {
        if dim != other {
            *dim = -1;
        }
    }
}

/// Takes a configuration that is complete but for the batch size; otherwise the error says what to add.
fn without_trial(
    source: &ModelSource,
    runner: &Runner,
    last: &str,
) -> Result<Signature, LoadError> {
    if !source.inputs.is_empty() && !source.outputs.is_empty() {
        return Ok(Signature {
            inputs: source.inputs.clone(),
            outputs: source.outputs.clone(),
            max_batch_size: source.max_batch_size.unwrap_or(0),
        });
    }
    let arguments = runner.module.arguments().iter();
    let arguments: Vec<String> = arguments
        .map(|argument| format!("{}: {}", argument.name, argument.type_text))
        .collect();
    Err(LoadError::Config(format!(
        "the inputs and outputs of model '{}' cannot be inferred: forward takes ({}), and no trial run \
         succeeded; the last error was: {last}. Add them to config.pbtxt, each with name, data_type \
         and dims",
        source.name,
        arguments.join(", ")
    )))
}

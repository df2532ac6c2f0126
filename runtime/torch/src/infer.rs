//! Infers the parts of a signature that a configuration leaves out, from the module and from trial runs on
//! generated inputs: names and count come from the schema; datatypes and dimensions from a traced module's
//! example, otherwise from candidates that its first weights suggest; outputs and the batch dimension from the
//! results of the trials.

mod candidates;
pub(crate) mod independence;
pub(crate) mod trial;

use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, ModelSource, Signature, TensorConfig};

use crate::outputs;
use crate::runner::{RunOutput, Runner};
use independence::Dependence;
use trial::{Rows, Trial};

/// Largest batch of a model with an inferred batch dimension and no configured limit. Beyond it CPU models gain
/// little, and the engine chooses smaller batches where those are faster.
const DEFAULT_MAX_BATCH_SIZE: usize = 32;

/// Infers the signature; whatever the configuration has is kept.
pub(crate) fn signature(source: &ModelSource, runner: &Runner) -> Result<Signature, LoadError> {
    let mut last = "no candidate for its inputs was found".to_owned();
    let mut mixed = None;
    if may_batch(source, runner) {
        for inputs in candidates::batched(source, &runner.module)? {
            let trial = Trial::new(source, runner, &inputs)?;
            match batched(source, runner, &trial, &inputs) {
                Ok(signature) => return Ok(signature),
                Err(Dependence::Failed(reason)) => last = reason,
                Err(Dependence::Shaped(reason)) => {
                    last.clone_from(&reason);
                    mixed.get_or_insert(reason);
                }
                Err(Dependence::Mixed(reason)) => {
                    // Inputs that hide it are no better.
                    last.clone_from(&reason);
                    mixed = Some(reason);
                    break;
                }
            }
        }
    }
    if source.max_batch_size.unwrap_or(0) == 0 {
        for inputs in candidates::whole(source, &runner.module)? {
            let trial = Trial::new(source, runner, &inputs)?;
            match whole(source, &trial, &inputs) {
                Ok(signature) => {
                    independence::warn_unbatched(source, runner, mixed.as_deref());
                    return Ok(candidates::with_settings(source, runner, signature));
                }
                Err(reason) => last = reason,
            }
        }
    }
    without_trial(source, runner, &last)
}

/// Checks whether to look for a batch dimension: not in a model that changes itself, unless the configuration says
/// so, because the rows of a batch would meet one state, and leave one; nor in one that takes a number for them all.
fn may_batch(source: &ModelSource, runner: &Runner) -> bool {
    match source.max_batch_size {
        Some(configured) => configured > 0,
        None => {
            let state = runner.module.self_writes().reason();
            state.is_none() && !candidates::has_one_value(source, &runner.module)
        }
    }
}

/// Accepts a batch dimension if rows have the same outputs alone and together, or the configuration says so.
fn batched(
    source: &ModelSource,
    runner: &Runner,
    trial: &Trial<'_>,
    inputs: &[TensorConfig],
) -> Result<Signature, Dependence> {
    let rows = Rows::Range(0..2);
    let together = trial.run(rows.clone(), None).map_err(Dependence::Failed)?;
    match source.max_batch_size {
        Some(configured) => independence::warn_if_mixed(source, runner, inputs, configured),
        None => independence::check(source, runner, inputs, DEFAULT_MAX_BATCH_SIZE)?,
    }
    let signature = observe(source, trial, inputs, &together, rows);
    let mut signature = signature.map_err(Dependence::Failed)?;
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
    let names = outputs::names(trial.returned(), seen);
    let mut outputs = outputs(seen, names, skip)?;
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
            for (index, input) in inputs.iter_mut().enumerate() {
                // A row is one string, and one number is one number.
                let tensor = input.datatype != DataType::Bytes && trial.stretches(index);
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

fn outputs(
    seen: &[RunOutput],
    names: Vec<String>,
    skip: usize,
) -> Result<Vec<TensorConfig>, String> {
    let output = |(index, (outcome, name)): (usize, (&RunOutput, String))| {
        let datatype = outcome
            .datatype
            .ok_or_else(|| format!("output {index} has an element type that V2 does not have"))?;
        Ok(TensorConfig {
            name,
            datatype,
            dims: if datatype == DataType::Bytes && skip > 0 {
                vec![1] // a list of strings, one to each row
            } else {
                let sizes = &outcome.sizes[skip.min(outcome.sizes.len())..];
                // None found in a trial, such as detections, says nothing of how many there can be.
                sizes
                    .iter()
                    .map(|&size| if size == 0 { -1 } else { size })
                    .collect()
            },
            reshape: None,
            optional: false,
        })
    };
    seen.iter().zip(names).enumerate().map(output).collect()
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

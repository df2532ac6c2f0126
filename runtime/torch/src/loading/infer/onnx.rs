//! The signature of an ONNX model: the file says names, datatypes and dimensions. Trials decide whether requests share
//! a batch, if the first dimension of every input and output is variable.

use std::time::Duration;

use weir_onnx::{Dimension, Session, TensorInfo};
use weir_runtime::backend::{LoadError, ModelSource, ShapeTolerance, Signature, TensorConfig};

use super::exported::{alone, correct};
use super::trial::{Rows, Trial};
use super::{DEFAULT_MAX_BATCH_SIZE, Inferred, independence, sizes};
use crate::execution::outputs::OutputBinding;
use crate::execution::runner::Runner;
use crate::libtorch::element;
use crate::loading::Remark;
use crate::loading::sandbox::{Stage, enter};
use crate::stopwatch::process_time;

/// CPU time limit of the search for sizes that the model takes. Runs that fail take about a millisecond.
const SEARCH: Duration = Duration::from_secs(4);

/// Returns the signature of a model. Configured parts are kept. `doubt` is the reason to make no trials.
///
/// # Errors
/// [`LoadError`] if the configuration names tensors that the model does not have, or the model has outputs that cannot
/// be served.
pub(crate) fn signature(
    source: &ModelSource,
    runner: &Runner,
    session: &Session,
    doubt: Option<&str>,
) -> Result<Inferred, LoadError> {
    check(source, session)?;
    let (max_batch_size, remark) = match (source.max_batch_size, doubt) {
        (Some(configured), Some(_)) => (configured, None),
        (Some(configured), None) => (configured, mixed(source, runner, session, configured)),
        (None, _) => inferred(source, runner, session, doubt),
    };
    let skip = usize::from(max_batch_size > 0);
    let mut signature = Signature {
        inputs: configured_or(&source.inputs, session.inputs(), skip),
        outputs: configured_or(&source.outputs, session.outputs(), skip),
        max_batch_size,
        tolerance: ShapeTolerance::None,
    };
    let ran = match doubt {
        Some(_) => None,
        None => runnable(source, runner, &signature.inputs, skip).ok(),
    };
    if let (Some(inputs), []) = (&ran, source.outputs.as_slice()) {
        correct(source, runner, inputs, &mut signature);
    }
    Ok(Inferred { signature, ran, remarks: remark.into_iter().collect() })
}

/// Returns the positions of the signature's outputs among the model's; [`signature`] has checked their names.
pub(crate) fn bind_outputs(session: &Session, outputs: &[TensorConfig]) -> OutputBinding {
    let position = |output: &TensorConfig| session.outputs().iter().position(|own| own.name == output.name);
    OutputBinding::Fixed(outputs.iter().filter_map(position).collect())
}

/// Returns the largest batch of a model without a configured one, and the reason if requests share no batch although
/// the file has a batch dimension.
fn inferred(source: &ModelSource, runner: &Runner, session: &Session, doubt: Option<&str>) -> (usize, Option<Remark>) {
    if !has_batch_dimension(session.inputs(), session.outputs()) {
        return (0, None);
    }
    let tried = match doubt {
        Some(doubt) => Err(format!("the trial {doubt}")),
        None => by_trial(source, runner, session),
    };
    match tried {
        Ok(()) => (DEFAULT_MAX_BATCH_SIZE, None),
        Err(reason) => (0, Some(alone(reason))),
    }
}

/// Returns true if the first dimension of every input is variable, under one name if it has names, and no output has a
/// fixed one. Trials decide on an output without dimensions, which is a scalar or has an open rank, and on one with a
/// single row: converters of classifiers declare so for the labels of any number of rows.
fn has_batch_dimension(inputs: &[TensorInfo], outputs: &[TensorInfo]) -> bool {
    let first = |tensor: &TensorInfo| match tensor.dims.first() {
        Some(Dimension::Variable(name)) => Some(name.clone()),
        Some(Dimension::Fixed(_)) | None => None,
    };
    let Some(names) = inputs.iter().map(first).collect::<Option<Vec<String>>>() else {
        return false;
    };
    let mut named = names.iter().filter(|name| !name.is_empty());
    let one_name = named.next().is_none_or(|one| named.all(|other| other == one));
    let is_fixed = |output: &TensorInfo| matches!(output.dims.first(), Some(Dimension::Fixed(2.. | ..=0)));
    !names.is_empty() && one_name && !outputs.iter().any(is_fixed)
}

/// Tries rows beside other rows.
fn by_trial(source: &ModelSource, runner: &Runner, session: &Session) -> Result<(), String> {
    let described = configured_or(&source.inputs, session.inputs(), 1);
    let inputs = runnable(source, runner, &described, 1)?;
    enter(Stage::Batches);
    let checked = independence::check(source, runner, &inputs, DEFAULT_MAX_BATCH_SIZE);
    enter(Stage::Inputs);
    checked.map_err(|dependence| dependence.reason().to_owned())
}

/// Returns a remark if the configuration lets requests share a run although rows depend on each other. A complete
/// configuration is tried later, with the inputs of the warm-up.
fn mixed(source: &ModelSource, runner: &Runner, session: &Session, configured: usize) -> Option<Remark> {
    let complete = !source.inputs.is_empty() && !source.outputs.is_empty();
    if configured == 0 || complete {
        return None;
    }
    let inputs = runnable(source, runner, &configured_or(&source.inputs, session.inputs(), 1), 1).ok()?;
    enter(Stage::Batches);
    let remark = independence::if_mixed(source, runner, &inputs, configured);
    enter(Stage::Inputs);
    remark
}

/// Returns the inputs with sizes that the model runs on. `rows` is 1 if the model takes a batch dimension before them,
/// otherwise 0.
///
/// # Errors
/// The first reason of the model against the sizes that were tried.
fn runnable(
    source: &ModelSource,
    runner: &Runner,
    inputs: &[TensorConfig],
    rows: usize,
) -> Result<Vec<TensorConfig>, String> {
    let sized = sizes::of_inputs(source, &runner.module, (inputs, rows)).map_err(|error| error.to_string())?;
    let rows = if rows == 0 { Rows::None } else { Rows::Range(0..2) };
    let (begun, mut first) = (process_time(), None);
    for inputs in sized {
        if process_time().saturating_sub(begun) > SEARCH {
            break;
        }
        let trial = Trial::new(source, runner, &inputs).map_err(|error| error.to_string())?;
        match trial.run(rows.clone(), None) {
            Ok(_) => return Ok(inputs),
            Err(reason) => first = first.or(Some(reason)),
        }
    }
    Err(format!("no trial run succeeded: {}", first.unwrap_or_default()))
}

/// Checks the names and datatypes of a configuration, and refuses models with outputs that cannot be served.
fn check(source: &ModelSource, session: &Session) -> Result<(), LoadError> {
    let model = &source.name;
    if source.outputs.is_empty()
        && let Some(output) = session.unservable().first()
    {
        let classifiers = match output.what.as_str() {
            "a sequence" => {
                " Classifiers of scikit-learn, xgboost and lightgbm are exported without it by the option zipmap=False."
            }
            _ => "",
        };
        return Err(LoadError::Config(format!(
            "unable to load model '{model}': its output '{}' is {}, which a response cannot have.{classifiers} List the \
             outputs to serve in config.pbtxt",
            output.name, output.what
        )));
    }
    let missing = |own: &&TensorInfo| !source.inputs.iter().any(|input| input.name == own.name);
    if !source.inputs.is_empty()
        && let Some(own) = session.inputs().iter().find(missing)
    {
        return Err(LoadError::Config(format!(
            "unable to load model '{model}', the configuration has no input '{}', which the model takes",
            own.name
        )));
    }
    check_tensors(source, "input", (&source.inputs, session.inputs()))?;
    check_tensors(source, "output", (&source.outputs, session.outputs()))
}

fn check_tensors(
    source: &ModelSource,
    side: &str,
    (configured, own): (&[TensorConfig], &[TensorInfo]),
) -> Result<(), LoadError> {
    let model = &source.name;
    for TensorConfig { name, datatype, .. } in configured {
        let Some(found) = own.iter().find(|own| own.name == *name) else {
            let names: Vec<&str> = own.iter().map(|own| &*own.name).collect();
            return Err(LoadError::Config(format!(
                "unable to load model '{model}': it has no {side} '{name}'; its {side}s are {}",
                names.join(", ")
            )));
        };
        if found.datatype != *datatype {
            return Err(LoadError::Config(format!(
                "unable to load model '{model}', configuration expects datatype {} for {side} '{name}', model provides {}",
                element::config_name(*datatype),
                element::config_name(found.datatype)
            )));
        }
    }
    Ok(())
}

fn configured_or(configured: &[TensorConfig], own: &[TensorInfo], skip: usize) -> Vec<TensorConfig> {
    if !configured.is_empty() {
        return configured.to_vec();
    }
    own.iter().map(|tensor| config(tensor, skip)).collect()
}

fn config(tensor: &TensorInfo, skip: usize) -> TensorConfig {
    let size = |dim: &Dimension| match dim {
        Dimension::Fixed(size) => *size,
        Dimension::Variable(_) => -1,
    };
    TensorConfig::new(tensor.name.clone(), tensor.datatype, tensor.dims.iter().skip(skip).map(size).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use weir_protocol::DataType;

    use super::*;

    fn tensor(dims: &[&str]) -> TensorInfo {
        let dim = |text: &&str| match text.parse() {
            Ok(size) => Dimension::Fixed(size),
            Err(_) => Dimension::Variable((*text).to_owned()),
        };
        TensorInfo { name: "x".to_owned(), datatype: DataType::Fp32, dims: dims.iter().map(dim).collect() }
    }

    #[test]
    fn a_batch_dimension_is_variable_in_every_input_and_fixed_in_no_output() {
        for (inputs, outputs, expected) in [
            (&[&["N", "4"][..]][..], &[&["N", "2"][..]][..], true),
            (&[&["", "4"]], &[&["", "2"]], true),
            (&[&["N"], &["N", "3"]], &[&["M"]], true),
            (&[&["N"], &[""]], &[&[]], true),
            (&[&["N"], &["M"]], &[&["N"]], false),
            (&[&["1", "4"]], &[&["N"]], false),
            (&[&["N"]], &[&["1"]], true),
            (&[&["N"]], &[&["2"]], false),
            (&[&["N"], &[]], &[&["N"]], false),
            (&[], &[&["N"]], false),
        ] {
            let [inputs, outputs] =
                [inputs, outputs].map(|all| all.iter().map(|dims| tensor(dims)).collect::<Vec<_>>());
            assert_eq!(has_batch_dimension(&inputs, &outputs), expected, "{inputs:?} {outputs:?}");
        }
    }
}

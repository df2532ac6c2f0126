//! Names of a method's outputs, and the choice of the signature's outputs among the outputs of a run.
//!
//! A path leads to an output inside the value that the method returns. The steps are joined by dots; each is a dict's
//! key, a NamedTuple's field, or `#` with a position in a tuple or list. `#1.#0.boxes` is the entry `boxes` of the
//! first element of the second element. Clients see it as `boxes` if no other output has that name, otherwise as
//! `OUTPUT__1.0.boxes`.

use weir_runtime::backend::{LoadError, ModelError, TensorConfig};

use crate::execution::binding::model_dims;
use crate::execution::runner::RunOutput;
use crate::execution::{by_index, suffix};
use crate::module::Returned;

/// The positions of the signature's outputs among the outputs of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OutputBinding {
    /// At these indices, in the order of the signature's outputs.
    Fixed(Vec<usize>),
    /// At these indices of a list, which may be shorter or longer in each run.
    List(Vec<usize>, ExtraOutputs),
    /// At the path that each output's name stands for.
    Keyed(ExtraOutputs),
}

/// The treatment of outputs of a run that the signature does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExtraOutputs {
    /// Dropped, because the configuration leaves them out.
    Dropped,
    /// An error, because the signature was inferred from a run that did not return them.
    Unexpected,
}

/// Returns the names of a run's outputs.
pub(crate) fn names(returned: &Returned, seen: &[RunOutput]) -> Vec<String> {
    match returned {
        Returned::Fixed(paths) => names_of(paths),
        Returned::Keyed => names_of(&paths(seen)),
        Returned::List | Returned::Unservable(_) => {
            let indices = 0..seen.len();
            indices.map(|index| format!("OUTPUT__{index}")).collect()
        }
    }
}

/// Finds the signature's outputs: by name if the method's outputs have names, otherwise by Triton's rules.
pub(crate) fn bind(
    model: &str,
    returned: &Returned,
    outputs: &[TensorConfig],
    extra: ExtraOutputs,
) -> Result<OutputBinding, LoadError> {
    let by_triton = || by_index(outputs).unwrap_or_else(|| (0..outputs.len()).collect());
    match returned {
        Returned::Fixed(paths) => fixed(model, paths, outputs).map(OutputBinding::Fixed),
        Returned::List => Ok(OutputBinding::List(by_triton(), extra)),
        Returned::Keyed => Ok(OutputBinding::Keyed(extra)),
        Returned::Unservable(reason) => Err(LoadError::Config(format!("unable to load model '{model}': {reason}"))),
    }
}

impl OutputBinding {
    /// Returns the outputs of a run in the signature's order; `None` for an output that is missing from a list.
    pub(crate) fn choose<'a>(
        &self,
        outputs: &[TensorConfig],
        run_outputs: &'a [RunOutput],
    ) -> Result<Vec<Option<&'a RunOutput>>, ModelError> {
        match self {
            Self::Fixed(indices) => {
                let pairs = outputs.iter().zip(indices);
                let chosen = pairs.map(|(output, &index)| {
                    let found = run_outputs.get(index);
                    found.map(Some).ok_or_else(|| absent(output, run_outputs.len()))
                });
                chosen.collect()
            }
            Self::List(indices, extra) => {
                check_length(indices, run_outputs, *extra)?;
                Ok(indices.iter().map(|&index| run_outputs.get(index)).collect())
            }
            Self::Keyed(extra) => choose_by_name(outputs, run_outputs, *extra),
        }
    }
}

/// Makes an output that is missing because a list was too short: a tensor without elements.
pub(crate) fn empty(output: &TensorConfig, rows: Option<usize>) -> RunOutput {
    let mut sizes: Vec<i64> = model_dims(output).iter().map(|&dim| dim.max(0)).collect();
    if !sizes.contains(&0) {
        match sizes.first_mut() {
            Some(first) => *first = 0,
            None => sizes.push(0),
        }
    }
    sizes.splice(0..0, rows.map(|rows| rows as i64));
    RunOutput { datatype: Some(output.datatype), sizes, data: bytes::Bytes::new(), path: None }
}

fn fixed(model: &str, paths: &[String], outputs: &[TensorConfig]) -> Result<Vec<usize>, LoadError> {
    let found: Vec<Option<usize>> = outputs.iter().map(|output| find(paths, &output.name)).collect();
    if let Some(found) = found.iter().copied().collect() {
        return Ok(found);
    }
    let named = |index: &usize| !is_position(first_step(&paths[*index]));
    let nested = paths.iter().any(|path| path.contains('.'));
    let by_index = by_index(outputs);
    if found.iter().flatten().any(named) || (nested && by_index.is_some()) {
        let unknown = outputs.iter().zip(&found).find(|(_, found)| found.is_none());
        let name = unknown.map_or("", |(output, _)| &output.name);
        return Err(LoadError::Config(format!(
            "unable to load model '{model}': it has no output '{name}'; its outputs are {}",
            names_of(paths).join(", ")
        )));
    }
    check_indices(model, paths, outputs, by_index)
}

/// Takes the outputs by index or in order, if the method has enough outputs.
fn check_indices(
    model: &str,
    paths: &[String],
    outputs: &[TensorConfig],
    by_index: Option<Vec<usize>>,
) -> Result<Vec<usize>, LoadError> {
    let Some(indices) = by_index else {
        if outputs.len() > paths.len() {
            return Err(LoadError::Config(format!(
                "unable to load model '{model}', configuration expects {} outputs, model provides {}",
                outputs.len(),
                paths.len()
            )));
        }
        return Ok((0..outputs.len()).collect());
    };
    let mut pairs = outputs.iter().zip(&indices);
    match pairs.find(|(_, index)| **index >= paths.len()) {
        None => Ok(indices),
        Some((output, _)) => Err(LoadError::Config(no_such_index(output, paths.len()))),
    }
}

fn absent(output: &TensorConfig, count: usize) -> ModelError {
    ModelError::Failed(no_such_index(output, count))
}

fn no_such_index(output: &TensorConfig, count: usize) -> String {
    format!(
        "The output {} in the model configuration refers to an output index which doesn't exist. \
         This model has {count} outputs",
        output.name
    )
}

fn check_length(indices: &[usize], run_outputs: &[RunOutput], extra: ExtraOutputs) -> Result<(), ModelError> {
    match extra {
        ExtraOutputs::Unexpected if run_outputs.len() > indices.len() => Err(ModelError::Failed(format!(
            "the model returned a list of {} tensors, more than the {} that it returned when it was loaded: \
             list as many outputs in config.pbtxt as it may return, OUTPUT__0, OUTPUT__1 and so on",
            run_outputs.len(),
            indices.len()
        ))),
        ExtraOutputs::Unexpected | ExtraOutputs::Dropped => Ok(()),
    }
}

fn choose_by_name<'a>(
    outputs: &[TensorConfig],
    run_outputs: &'a [RunOutput],
    extra: ExtraOutputs,
) -> Result<Vec<Option<&'a RunOutput>>, ModelError> {
    let paths = paths(run_outputs);
    let names = || match names_of(&paths).as_slice() {
        [] => "nothing".to_owned(),
        names => names.join(", "),
    };
    let found = outputs.iter().map(|output| {
        find(&paths, &output.name).ok_or_else(|| {
            let name = &output.name;
            ModelError::Failed(format!("the model returned no output '{name}' for this input, only {}", names()))
        })
    });
    let found = found.collect::<Result<Vec<usize>, _>>()?;
    let unexpected = (0..paths.len()).find(|index| !found.contains(index));
    match (extra, unexpected) {
        (ExtraOutputs::Unexpected, Some(index)) => Err(ModelError::Failed(format!(
            "the model returned '{}', which it did not return when it was loaded: list the outputs to serve \
             in config.pbtxt, of {}",
            display(&paths[index]),
            names()
        ))),
        (ExtraOutputs::Unexpected | ExtraOutputs::Dropped, _) => {
            Ok(found.iter().map(|&index| run_outputs.get(index)).collect())
        }
    }
}

fn paths(run_outputs: &[RunOutput]) -> Vec<String> {
    let path = |output: &RunOutput| output.path.clone().unwrap_or_default();
    run_outputs.iter().map(path).collect()
}

/// Finds the output that a name stands for. The name is its path, the path after `__` if the path starts with a
/// position, or the path from its first key on if no other output has the same.
fn find(paths: &[String], name: &str) -> Option<usize> {
    let shown: Vec<String> = paths.iter().map(|path| display(path)).collect();
    let by_path = || {
        let mut indices = (0..paths.len()).filter(|&index| shown[index] == name);
        indices.next().filter(|_| indices.next().is_none())
    };
    let by_suffix = || {
        let suffix = suffix(name)?;
        let mut indices = 0..paths.len();
        indices.find(|&index| shown[index] == suffix && is_position(first_step(&paths[index])))
    };
    let by_key = || {
        let mut indices = (0..paths.len()).filter(|&index| key(&paths[index]) == Some(name));
        indices.next().filter(|_| indices.next().is_none())
    };
    by_path().or_else(by_suffix).or_else(by_key)
}

fn names_of(paths: &[String]) -> Vec<String> {
    let name = |path: &String| {
        let shown = display(path);
        if !is_position(first_step(path)) {
            return shown;
        }
        let alone = |key: &&str| {
            let same = |other: &&String| self::key(other) == Some(*key);
            paths.iter().filter(same).count() == 1
        };
        key(path).filter(alone).map_or_else(|| format!("OUTPUT__{shown}"), str::to_owned)
    };
    paths.iter().map(name).collect()
}

/// Returns the path without the `#` of its positions.
fn display(path: &str) -> String {
    let steps = path.split('.');
    let steps: Vec<&str> = steps.map(|step| step.strip_prefix('#').unwrap_or(step)).collect();
    steps.join(".")
}

/// Returns the path from its first key on, if no position follows that key.
fn key(path: &str) -> Option<&str> {
    let mut rest = path;
    while is_position(first_step(rest)) {
        rest = rest.split_once('.')?.1;
    }
    (!rest.contains('#')).then_some(rest)
}

fn first_step(path: &str) -> &str {
    path.split('.').next().unwrap_or(path)
}

fn is_position(step: &str) -> bool {
    let digits = step.strip_prefix('#').unwrap_or("");
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests;

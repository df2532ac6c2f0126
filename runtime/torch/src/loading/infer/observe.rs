//! Builds the signature that trial runs show: the outputs, and the dimensions that may vary.

use weir_protocol::DataType;
use weir_runtime::backend::{ModelSource, ShapeTolerance, Signature, TensorConfig};

use super::candidates::Candidate;
use super::trial::{Fill, LARGER_INTEGER, Rows, Stretch, Trial};
use crate::execution::binding::model_dims;
use crate::execution::outputs::names;
use crate::execution::runner::RunOutput;

/// Further values for a model without a batch dimension, to find output sizes that depend on them.
const OTHER_VALUES: [usize; 3] = [1, 2, 5];

/// Names the outputs, and finds the variable dimensions by enlarging each one in turn.
pub(super) fn signature(
    source: &ModelSource,
    trial: &Trial<'_>,
    candidate: &Candidate,
    seen: &[RunOutput],
    rows: &Rows,
) -> Result<Signature, String> {
    let skip = skipped(rows);
    let names = names(trial.returned(), seen);
    check_names(&names)?;
    let mut outputs = outputs(seen, names, skip)?;
    let mut inputs = candidate.inputs.clone();
    let mut stretched = Vec::new();
    for stretch in stretches(&inputs) {
        let known = |found: &Stretch| covers(*found, stretch);
        if stretched.iter().any(known) || (stretch == Stretch::All && !stretched.is_empty()) {
            continue;
        }
        if let Ok(larger) = trial.stretched(rows, stretch)
            && has_rows(&larger, rows)
        {
            mark_varying(&mut outputs, &larger, skip);
            stretched.push(stretch);
        }
    }
    if *rows == Rows::None {
        for row in OTHER_VALUES {
            if let Ok(other) = trial.run(Rows::Other(row), None) {
                mark_varying(&mut outputs, &other, skip);
            }
        }
    }
    if source.inputs.is_empty() {
        open(&mut inputs, &stretched, rows);
        open_parts(&mut inputs, &candidate.parts);
        // An input for a single number keeps its dimensions.
        for (index, own) in candidate.inputs.iter().enumerate().filter(|(index, _)| !trial.stretches(*index)) {
            inputs[index].dims.clone_from(&own.dims);
        }
    }
    if !source.inputs.is_empty() {
        inputs.clone_from(&source.inputs);
    }
    let outputs = match source.outputs.as_slice() {
        [] => outputs,
        configured => configured.to_vec(),
    };
    Ok(Signature { inputs, outputs, max_batch_size: 0, tolerance: ShapeTolerance::None })
}

/// Marks output dimensions as variable if they change with the values of the inputs, as in `bincount` or `one_hot`.
/// Larger integers are not tried on a GPU, where an out-of-range index makes the device unusable for the process.
pub(super) fn mark_sizes_by_values(trial: &Trial<'_>, rows: &Rows, signature: &mut Signature) {
    let counts = trial.is_on_processor().then_some(Fill::Counts(LARGER_INTEGER));
    let fills = counts.into_iter().chain([Fill::Ones, Fill::Zeros, Fill::Hundreds, Fill::Negative]);
    for fill in fills {
        if let Ok(seen) = trial.with(fill).run(rows.clone(), None)
            && has_rows(&seen, rows)
        {
            mark_varying(&mut signature.outputs, &seen, skipped(rows));
        }
    }
}

/// Returns true if every output has one row for each input row. A larger input may have become more rows, as with
/// `x.view(-1, 784)`.
fn has_rows(seen: &[RunOutput], rows: &Rows) -> bool {
    match rows {
        Rows::None | Rows::Other(_) => true,
        Rows::Range(range) => {
            let rows = |output: &RunOutput| output.sizes.first() == Some(&(range.len() as i64));
            seen.iter().all(rows)
        }
    }
}

/// Returns the number of leading dimensions of a trial's tensors that the signature leaves out.
pub(super) fn skipped(rows: &Rows) -> usize {
    match rows {
        Rows::None | Rows::Other(_) => 0,
        Rows::Range(_) => 1,
    }
}

/// Returns the trials that show which dimensions vary. First each dimension is enlarged in all inputs together, because
/// sequence lengths must agree; then in single inputs; then all dimensions at once, because some models need squares.
fn stretches(inputs: &[TensorConfig]) -> Vec<Stretch> {
    let ranks: Vec<usize> = inputs.iter().map(rank).collect();
    let most = ranks.iter().copied().max().unwrap_or(0);
    let mut all: Vec<Stretch> = (0..most).map(Stretch::Axis).collect();
    if inputs.len() > 1 {
        let axes = |(index, &rank): (usize, &usize)| (0..rank).map(move |axis| Stretch::AxisOf(index, axis));
        all.extend(ranks.iter().enumerate().flat_map(axes));
    }
    if most > 1 {
        all.push(Stretch::All);
    }
    all
}

fn rank(input: &TensorConfig) -> usize {
    model_dims(input).len()
}

/// Returns true if the stretch `other` need not be tried because `found` succeeded.
fn covers(found: Stretch, other: Stretch) -> bool {
    match (found, other) {
        (Stretch::Axis(axis), Stretch::AxisOf(_, of)) => axis == of,
        (found, other) => found == other,
    }
}

/// Marks the dimensions as variable in which the inputs may be larger.
fn open(inputs: &mut [TensorConfig], stretched: &[Stretch], rows: &Rows) {
    for (index, input) in inputs.iter_mut().enumerate() {
        // A row of strings is always one string, and a row without dimensions has nothing to vary.
        let is_string = input.datatype == DataType::Bytes && skipped(rows) > 0;
        if is_string || input.reshape.is_some() {
            continue;
        }
        for (axis, dim) in input.dims.iter_mut().enumerate() {
            let varies = stretched.iter().any(|stretch| match *stretch {
                Stretch::Axis(own) => own == axis,
                Stretch::AxisOf(of, own) => of == index && own == axis,
                Stretch::All => true,
            });
            if varies {
                *dim = -1;
            }
        }
    }
}

/// Checks that output names are unique: otherwise a request for the second would get the first.
fn check_names(names: &[String]) -> Result<(), String> {
    let mut pairs = names.iter().enumerate();
    match pairs.find(|(at, name)| names[..*at].contains(name)) {
        None => Ok(()),
        Some((_, name)) => Err(format!("an output is called '{name}' twice: return them under other keys")),
    }
}

/// Marks the last dimensions of concatenated inputs as variable, because only their sum is known.
fn open_parts(inputs: &mut [TensorConfig], parts: &[usize]) {
    if parts.len() < 2 {
        return;
    }
    for &index in parts {
        if let Some(last) = inputs.get_mut(index).and_then(|input| input.dims.last_mut()) {
            *last = -1;
        }
    }
}

fn outputs(seen: &[RunOutput], names: Vec<String>, skip: usize) -> Result<Vec<TensorConfig>, String> {
    let output = |(index, (outcome, name)): (usize, (&RunOutput, String))| {
        let datatype =
            outcome.datatype.ok_or_else(|| format!("output {index} has an element type that V2 does not have"))?;
        Ok(output(name, datatype, &outcome.sizes, skip))
    };
    seen.iter().zip(names).enumerate().map(output).collect()
}

fn output(name: String, datatype: DataType, sizes: &[i64], skip: usize) -> TensorConfig {
    let own = &sizes[skip.min(sizes.len())..];
    // A size of 0 in a trial, such as a count of detections, does not limit the count in other runs.
    let dims: Vec<i64> = own.iter().map(|&size| if size == 0 { -1 } else { size }).collect();
    let dims = match (skip, datatype) {
        (1.., DataType::Bytes) => vec![1], // a list of strings, one to each row
        _ => dims,
    };
    TensorConfig::new(name, datatype, dims)
}

fn mark_varying(outputs: &mut [TensorConfig], seen: &[RunOutput], skip: usize) {
    for (output, outcome) in outputs.iter_mut().zip(seen) {
        let sizes = &outcome.sizes[skip.min(outcome.sizes.len())..];
        if output.reshape.is_some() {
            continue;
        }
        for (dim, other) in output.dims.iter_mut().zip(sizes) {
            if dim != other {
                *dim = -1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check_names;

    #[test]
    fn names_of_outputs_are_their_own() {
        let names = |names: [&str; 2]| check_names(&names.map(str::to_owned));
        assert_eq!(names(["a", "b"]), Ok(()));
        let refused = names(["a.b", "a.b"]).unwrap_err();
        assert_eq!(refused, "an output is called 'a.b' twice: return them under other keys");
    }
}

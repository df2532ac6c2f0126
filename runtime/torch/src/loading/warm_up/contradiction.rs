//! Finds configured output dimensions that no output of the model has.
//!
//! An output's dimension may depend on sizes and values of the inputs, and clients may send only inputs that give the
//! configured dimension. A dimension therefore contradicts the configuration only if runs with other sizes and values
//! all give the same other number.

use std::time::Duration;

use weir_runtime::backend::{ModelError, ModelSource, Signature, TensorConfig};

use super::{RunnableInput, columns, run};
use crate::execution::binding::model_dims;
use crate::execution::instance::TorchInstance;
use crate::loading::complaints::Complaints;
use crate::loading::infer::trial::{Fill, LARGER_INTEGER};
use crate::stopwatch::process_time;

/// Factors by which variable dimensions are enlarged, the cheapest first. Small factors may have no effect on the
/// output of a pooling window.
const FACTORS: [i64; 4] = [2, 3, 8, 64];

/// Minimum number of runs with other sizes that must agree.
const LEAST_SIZES: usize = 2;

/// Most elements of an input that is tried.
const MOST_ELEMENTS: i64 = 4 << 20;

/// CPU time after which no larger input is tried.
const SEARCH: Duration = Duration::from_millis(200);

/// Dimensions of each output of a run, without the batch dimension.
type Shapes = Vec<Vec<i64>>;

/// Returns a complaint about an output whose configured dimensions contradict the model; `None` if there is none.
pub(crate) fn find(source: &ModelSource, instance: &mut TorchInstance, found: &RunnableInput) -> Option<Complaints> {
    if source.outputs.is_empty() {
        return None;
    }
    let signature = instance.plan.signature.clone();
    let on_processor = instance.runner.placement.is_processor();
    let mut shapes_of = |found: &RunnableInput| {
        let columns = columns(source, instance, found)?;
        run(source, instance, columns, 1).ok()
    };
    let mut seen = vec![shapes_of(found)?];
    contradictory(source, &signature, &seen)?;
    for other in other_values(found, on_processor.then_some(Fill::Counts(LARGER_INTEGER))) {
        seen.extend(shapes_of(&other));
        contradictory(source, &signature, &seen)?;
    }
    if signature.inputs.iter().any(is_variable) {
        let (begun, mut sizes) = (process_time(), 0);
        for factor in FACTORS {
            let larger = larger(found, &signature, factor);
            let in_time = process_time().saturating_sub(begun) < SEARCH;
            if let Some(shapes) = larger.filter(|_| in_time).and_then(|larger| shapes_of(&larger)) {
                sizes += 1;
                seen.push(shapes);
                contradictory(source, &signature, &seen)?;
            }
        }
        if sizes < LEAST_SIZES {
            return None;
        }
    }
    let text = contradictory(source, &signature, &seen)?;
    let mut complaints = Complaints::new(&signature);
    complaints.add(&found.inputs, ModelError::Failed(text));
    Some(complaints)
}

/// Returns copies of the input with other values, because output sizes may depend on values. `counts` is `None` on a
/// GPU, where an out-of-range index makes the device unusable for the process.
fn other_values(found: &RunnableInput, counts: Option<Fill>) -> Vec<RunnableInput> {
    let fills = [Fill::Ones, Fill::Zeros, Fill::Hundreds, Fill::Negative];
    fills.into_iter().chain(counts).map(|fill| RunnableInput { fill, ..found.clone() }).collect()
}

/// Returns the input with its variable dimensions enlarged; `None` if it is too large to try.
fn larger(found: &RunnableInput, signature: &Signature, factor: i64) -> Option<RunnableInput> {
    let mut larger = found.clone();
    for (input, config) in larger.inputs.iter_mut().zip(&signature.inputs) {
        let variable = model_dims(config).to_vec();
        let dims = input.reshape.as_mut().unwrap_or(&mut input.dims);
        for (dim, _) in dims.iter_mut().zip(variable).filter(|(_, variable)| *variable < 0) {
            *dim = dim.checked_mul(factor)?;
        }
        let elements = dims.iter().try_fold(1_i64, |product, dim| product.checked_mul(*dim))?;
        if elements > MOST_ELEMENTS {
            return None;
        }
    }
    Some(larger)
}

fn is_variable(input: &TensorConfig) -> bool {
    model_dims(input).iter().any(|dim| *dim < 0)
}

/// Describes the first output whose dimensions are the same in all runs, but differ from the configured dimensions.
fn contradictory(source: &ModelSource, signature: &Signature, seen: &[Shapes]) -> Option<String> {
    let outputs = signature.outputs.iter().enumerate();
    let is_configured = |output: &TensorConfig| source.outputs.iter().any(|other| other.name == output.name);
    // Clients of a model with variable inputs may send another rank, and then get another rank.
    let varies = signature.inputs.iter().any(is_variable);
    let states_a_size = |output: &TensorConfig| !varies || model_dims(output).iter().any(|dim| *dim >= 0);
    let mut configured = outputs.filter(|(_, output)| is_configured(output) && states_a_size(output));
    configured.find_map(|(index, output)| {
        let shapes: Option<Vec<&[i64]>> = seen.iter().map(|shapes| shapes.get(index).map(Vec::as_slice)).collect();
        let (name, dims, shapes) = (&output.name, model_dims(output), shapes?);
        let first = *shapes.first()?;
        contradicts(dims, &shapes)
            .then(|| format!("output '{name}' has dims {first:?}, where the configuration says {dims:?}"))
    })
}

/// Returns true if all runs agree on another rank than the configured one, or on another size of a configured
/// dimension.
fn contradicts(configured: &[i64], shapes: &[&[i64]]) -> bool {
    let Some(first) = shapes.first() else {
        return false;
    };
    if shapes.iter().any(|shape| shape.len() != first.len()) {
        return false;
    }
    if first.len() != configured.len() {
        // A scalar satisfies a configured shape of one element.
        return !(first.is_empty() && configured == [1]);
    }
    let one_other = |(axis, dim): (usize, &i64)| {
        *dim >= 0 && first[axis] != *dim && shapes.iter().all(|shape| shape[axis] == first[axis])
    };
    configured.iter().enumerate().any(one_other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_dimension_that_all_runs_agree_on_contradicts() {
        for (configured, shapes, expected) in [
            (&[4][..], &[&[3][..], &[3]][..], true),
            (&[3], &[&[3], &[3]], false),
            (&[-1], &[&[3], &[3]], false),
            (&[4], &[&[3], &[6]], false),
            (&[4], &[&[3], &[4]], false),
            (&[-1, 4], &[&[2, 3], &[4, 3]], true),
            (&[10, 3], &[&[2, 3], &[4, 3]], false),
            (&[4], &[&[3, 4], &[6, 4]], true),
            (&[4], &[&[4], &[6, 4]], false),
            (&[1], &[&[]], false),
            (&[4], &[], false),
        ] {
            assert_eq!(contradicts(configured, shapes), expected, "{configured:?} {shapes:?}");
        }
    }
}

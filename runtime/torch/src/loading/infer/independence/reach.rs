//! Finds how far the integers of a model's inputs may be raised.

use super::Test;
use super::rows::{self, Increase, OtherRows};
use crate::execution::runner::RunOutput;
use crate::libtorch::element;

/// Finds the largest increase that the model accepts, one input after the other; `None` if it accepts none for any
/// input.
///
/// On a GPU nothing is tried, because an out-of-range index makes the device unusable for all models. A copy on the CPU
/// takes these runs instead.
pub(super) fn find(test: &mut Test<'_>) -> Option<Increase> {
    if !test.runner.placement.is_processor() {
        return None;
    }
    let inputs = test.trial.inputs();
    let integers = |&input: &usize| rows::is_integer(inputs[input].datatype);
    let integers: Vec<usize> = (0..inputs.len()).filter(integers).collect();
    let mut found = Increase::none(inputs.len());
    for input in integers {
        let mut tried = Increase::TRIED.into_iter();
        found.0[input] = tried.find(|&reach| is_taken(test, input, reach)).unwrap_or(0);
    }
    test.reach = Increase::none(found.0.len());
    found.0.iter().any(|&reach| reach > 0).then_some(found)
}

/// Returns true if the model accepts rows with one input raised, and the outputs of the row under test stay finite: a
/// mask of large numbers may turn them all into NaN.
fn is_taken(test: &mut Test<'_>, input: usize, reach: u16) -> bool {
    test.reach = Increase::none(test.trial.inputs().len());
    test.reach.0[input] = reach;
    let mut run = |index, other_rows| {
        let row = test.row(index, other_rows).ok()?;
        test.run(&[&row]).ok()
    };
    let subject = run(1, OtherRows::Subject);
    subject.is_some_and(|outputs| outputs.iter().all(is_finite)) && run(0, OtherRows::Large).is_some()
}

fn is_finite(output: &RunOutput) -> bool {
    output.datatype.is_some_and(|datatype| {
        let elements = element::decode(datatype, &output.data);
        elements.iter().all(|element| element.is_finite())
    })
}

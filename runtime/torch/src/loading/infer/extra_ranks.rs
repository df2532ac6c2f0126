//! Finds further ranks that a model accepts: a linear layer works on the last dimension of a tensor of any rank.

use weir_protocol::{Batching, DataType};
use weir_runtime::backend::{ModelSource, ShapeTolerance, Signature, TensorConfig};

use super::independence;
use super::trial::{Rows, Trial};
use crate::execution::runner::Runner;
use crate::loading::Remark;
use crate::module::{Argument, ArgumentKind};

/// Sizes of additional leading dimensions to try.
const FURTHER: [&[i64]; 2] = [&[2], &[3, 2]];

/// Adds the shape tolerance that trials show. Nothing is added if a configuration or an example determines the shapes.
pub(super) fn with(source: &ModelSource, runner: &Runner, trial: &Trial<'_>, signature: Signature) -> Signature {
    let learned = source.inputs.is_empty() && source.outputs.is_empty();
    let plain = |tensor: &TensorConfig| tensor.reshape.is_none() && tensor.datatype != DataType::Bytes;
    let plain = signature.inputs.iter().chain(&signature.outputs).all(plain);
    let tensor = |argument: &Argument| argument.kind == ArgumentKind::Tensor;
    let tensors = runner.module.arguments().iter().all(tensor);
    if !learned || !plain || !tensors || signature.inputs.is_empty() || trial.has_example() {
        return signature;
    }
    let rows = match signature.max_batch_size {
        0 => Batching::None,
        _ => Batching::FirstDimension,
    };
    let takes = |further: &[i64]| {
        let deeper = trial.inputs().iter().map(|input| deeper(input, further));
        runs((source, runner), &trial.on(&deeper.collect::<Vec<_>>()), rows)
    };
    match FURTHER.iter().take_while(|further| takes(further)).count() {
        0 => return signature,
        1 => {
            return Signature { tolerance: ShapeTolerance::OneLeadingDim, ..signature };
        }
        _ => {}
    }
    let open = |input: &TensorConfig| input.dims.iter().all(|dim| *dim < 0);
    let shallower = trial.inputs().iter().map(|input| shallower(input, rows));
    let any =
        signature.inputs.iter().all(open) && runs((source, runner), &trial.on(&shallower.collect::<Vec<_>>()), rows);
    let tolerance = if any { ShapeTolerance::AnyRank } else { ShapeTolerance::LeadingDims };
    Signature { tolerance, ..signature }
}

/// Returns a remark about a model that runs on inputs of two ranks, because metadata shows only one of them.
pub(super) fn remark(signature: &Signature) -> Option<Remark> {
    let ranks = |input: &TensorConfig| {
        let name = &input.name;
        format!("'{name}' of {:?} and of {:?}", input.dims, [&[-1], input.dims.as_slice()].concat())
    };
    let ranks: Vec<String> = signature.inputs.iter().map(ranks).collect();
    (signature.tolerance == ShapeTolerance::OneLeadingDim).then(|| {
        Remark::new(
            "the model runs on inputs of two ranks: requests may have either, each runs by itself, and metadata shows \
             the first",
            format!("trials ran {}", ranks.join(", ")),
            "put a request beside the model as example.json, or configure inputs and outputs, to have one of them",
        )
    })
}

/// Returns the input with one dimension less. A row without dimensions has the shape [1] in requests.
fn shallower(input: &TensorConfig, rows: Batching) -> TensorConfig {
    let dims = input.dims.get(1..).unwrap_or_default();
    TensorConfig {
        dims: if dims.is_empty() { vec![1] } else { dims.to_vec() },
        reshape: (dims.is_empty() && rows == Batching::FirstDimension).then(Vec::new),
        ..input.clone()
    }
}

fn deeper(input: &TensorConfig, further: &[i64]) -> TensorConfig {
    TensorConfig { dims: [further, input.dims.as_slice()].concat(), ..input.clone() }
}

/// Largest batch that is tried at each further rank. The signature's own rank has been tried with larger ones.
const LARGEST_BATCH: usize = 3;

/// Returns true if the model runs on the trial's inputs and, with a batch dimension, its rows stay independent.
fn runs((source, runner): (&ModelSource, &Runner), trial: &Trial<'_>, rows: Batching) -> bool {
    match rows {
        Batching::None => trial.run(Rows::None, None).is_ok(),
        Batching::FirstDimension => independence::check(source, runner, trial.inputs(), LARGEST_BATCH).is_ok(),
    }
}

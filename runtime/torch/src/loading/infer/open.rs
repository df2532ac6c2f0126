//! Signatures of models without a successful trial run: shapes are left open, and each request runs with its own.

use weir_runtime::backend::{LoadError, ModelSource, ShapeTolerance, Signature, TensorConfig};

use super::candidates;
use crate::execution::outputs;
use crate::execution::runner::Runner;
use crate::loading::Remark;
use crate::module::{ArgumentKind, Returned};

/// Returns a signature that accepts any shape; `None` if not even the number of tensors is known.
pub(super) fn signature(source: &ModelSource, runner: &Runner) -> Result<Option<Signature>, LoadError> {
    let configured = !source.inputs.is_empty() || !source.outputs.is_empty();
    let batches = source.max_batch_size.is_some_and(|size| size > 0);
    let arguments = candidates::required_arguments(source, &runner.module)?;
    let servable = arguments.iter().all(|argument| is_open(argument.kind));
    let names = match runner.module.returned() {
        returned @ Returned::Fixed(_) => outputs::names(returned, &[]),
        Returned::List | Returned::Keyed | Returned::Unservable(_) => return Ok(None),
    };
    if !servable || configured || batches {
        return Ok(None);
    }
    let likely = arguments.iter().map(|argument| candidates::likely(&runner.module, argument));
    let output = |name: String| TensorConfig::new(name, weir_protocol::DataType::Fp32, vec![-1]);
    Ok(Some(Signature {
        inputs: likely.collect(),
        outputs: names.into_iter().map(output).collect(),
        max_batch_size: 0,
        tolerance: ShapeTolerance::Everything,
    }))
}

/// Returns true if a request alone determines the value of such an argument.
fn is_open(kind: ArgumentKind) -> bool {
    match kind {
        ArgumentKind::Tensor | ArgumentKind::Strings | ArgumentKind::Scalar(_) | ArgumentKind::Numbers(_) => true,
        ArgumentKind::TensorDict | ArgumentKind::TensorList | ArgumentKind::Other => false,
    }
}

/// Returns the remark that tells the operator that the signature is a guess.
pub(super) fn remark(reason: &str) -> Remark {
    Remark::new(
        "no trial run succeeded: datatypes and shapes are a guess, each request is run alone and unchecked",
        reason,
        "put a request beside the model as example.json, or add inputs and outputs to config.pbtxt",
    )
}

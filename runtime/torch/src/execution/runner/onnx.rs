//! Runs of ONNX models on the CPU.

use weir_onnx::{OnnxError, Session, Value};
use weir_runtime::backend::{Column, ModelError, Timing};

use super::RunOutput;
use crate::execution::binding::Binding;
use crate::libtorch::gather;
use crate::stopwatch::Stopwatch;

/// Runs one batch. `columns` are in the binding's order.
pub(super) fn run(
    session: &Session,
    binding: &Binding,
    columns: &[Option<&Column>],
) -> Result<(Vec<RunOutput>, Timing), ModelError> {
    let (mut stopwatch, mut timing) = (Stopwatch::start(), Timing::default());
    let values = values(session, binding, columns)?;
    timing.input = stopwatch.lap();
    let outputs = session.run(values).map_err(failure)?;
    timing.infer = stopwatch.lap();
    let outputs = outputs.into_iter().map(|output| output_of(output).map_err(failure));
    Ok((outputs.collect::<Result<_, _>>()?, timing))
}

/// Returns one value per input of the model, in the model's order.
fn values(session: &Session, binding: &Binding, columns: &[Option<&Column>]) -> Result<Vec<Value>, ModelError> {
    let position = |index: usize| match binding {
        Binding::Positional { argument_of, .. } => argument_of.iter().position(|argument| *argument == index),
        Binding::Dict(_) => Some(index),
    };
    let inputs = session.inputs().iter().enumerate();
    let values = inputs.map(|(index, input)| {
        let column = position(index).and_then(|at| columns.get(at).copied().flatten());
        let column = column.ok_or_else(|| ModelError::Refused(format!("input '{}' is missing", input.name)))?;
        if column.datatype != input.datatype || column.parts.iter().any(|part| part.datatype != input.datatype) {
            return Err(ModelError::Refused(format!(
                "input '{}' is of datatype {}, and the model takes {}",
                input.name, column.datatype, input.datatype
            )));
        }
        value(column)
    });
    values.collect()
}

/// Makes a tensor from a column: over the request's own bytes if they are the whole batch.
fn value(column: &Column) -> Result<Value, ModelError> {
    let dims: Vec<i64> = column.shape.signed().collect();
    let Some(size) = column.datatype.size() else {
        return Value::strings(&dims, &gather::strings(column)).map_err(failure);
    };
    gather::check(column, size).map_err(ModelError::Failed)?;
    if let Some(data) = gather::single_part(column)
        && let Some(value) = Value::borrowed(column.datatype, &dims, data).map_err(failure)?
    {
        return Ok(value);
    }
    Value::filled(column.datatype, &dims, |out| gather::gather(column, size, out)).map_err(failure)
}

fn output_of(value: Value) -> Result<RunOutput, OnnxError> {
    let (datatype, sizes) = (value.datatype()?, value.dims()?);
    Ok(RunOutput { datatype, sizes, data: value.into_bytes()?, path: None })
}

fn failure(error: OnnxError) -> ModelError {
    match error {
        OnnxError::Inputs(text) => ModelError::Refused(text),
        OnnxError::Library(text) | OnnxError::Model(text) | OnnxError::Run(text) => {
            ModelError::Failed(format!("onnx runtime error: {text}"))
        }
        OnnxError::OutOfMemory(text) => ModelError::OutOfMemory(text),
    }
}

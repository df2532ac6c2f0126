//! Inputs for runs before readiness: an input that the model accepts, and the largest batch of it.
//!
//! The inputs to try come in this order: the input that inference ran on, the example beside the model, the example
//! that the module was traced with, inputs that the weights suggest, and sizes and values that many models accept.

pub(crate) mod contradiction;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use weir_protocol::{DataType, Parameters, Shape};
use weir_runtime::backend::{
    Batch, Column, Instance, ModelError, ModelSource, RequestInfo, RequestTensor, TensorConfig, WarmUpInput,
};
use weir_runtime::check_output;

use crate::execution::binding::model_dims;
use crate::execution::instance::TorchInstance;
use crate::loading::complaints::Complaints;
use crate::loading::infer::sizes;
use crate::loading::infer::trial::{Fill, Rows, Trial};
use crate::loading::sandbox::{Report, WarmUpData, limited, report};
use crate::stopwatch::process_time;

/// CPU time limit of the search for an input. Runs that fail take about a millisecond.
const SEARCH: Duration = Duration::from_secs(4);

/// Number of sizes that are also tried with further values, such as zeros.
const SIZES_OF_OTHERS: usize = 12;

/// CPU time for batches of the input found on the CPU, each of which runs once.
const BATCHES: Duration = Duration::from_millis(250);

/// CPU time for these batches on a GPU. The first run of a size compiles and chooses kernels there, which took 50 to 75 ms on
/// an H200, whatever the size. A model with batches of up to 1024 rows has eleven sizes.
const BATCHES_ON_GPU: Duration = Duration::from_secs(2);

/// Largest batch to try, by bytes of inputs. Larger batches reveal nothing that smaller ones do not.
const MOST_BYTES: usize = 64 << 20;

/// An input that the model runs on, with a size for each dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunnableInput {
    pub(crate) inputs: Vec<TensorConfig>,
    pub(crate) fill: Fill,
    /// The signature's largest batch size; 0 without a batch dimension.
    pub(crate) max_batch_size: usize,
}

/// Finds an input that the model runs on with outputs that match its signature.
///
/// # Errors
/// The distinct errors on the inputs that were tried.
pub(crate) fn find(
    source: &ModelSource,
    instance: &mut TorchInstance,
    ran: Option<Vec<TensorConfig>>,
) -> Result<RunnableInput, Complaints> {
    let signature = instance.plan.signature.clone();
    let sized = sizes::of_signature(source, &instance.runner.module, &signature, ran);
    let mut complaints = Complaints::new(&signature);
    let begun = process_time();
    for found in attempts(source, sized, signature.max_batch_size) {
        if process_time().saturating_sub(begun) > SEARCH {
            break;
        }
        let Some(columns) = columns(source, instance, &found) else {
            continue;
        };
        match run(source, instance, columns, 1) {
            Ok(_) => return Ok(found),
            Err(complaint) => complaints.add(&found.inputs, complaint),
        }
    }
    Err(complaints)
}

/// Returns the inputs to try: all sizes with the example's values, varied values and lengths, then the first sizes with
/// further values.
fn attempts(source: &ModelSource, sized: Vec<Vec<TensorConfig>>, max_batch_size: usize) -> Vec<RunnableInput> {
    let example = source.example.as_ref().map(|_| Fill::Example);
    let of = |fill: Fill, inputs: &Vec<TensorConfig>| RunnableInput { inputs: inputs.clone(), fill, max_batch_size };
    let mut all: Vec<RunnableInput> = Vec::new();
    for inputs in &sized {
        // A length may be the number of steps of the sequence.
        let counts = inputs.iter().any(is_integer).then(|| Fill::Counts(longest(inputs)));
        let fills = example.into_iter().chain([Fill::Varied]).chain(counts);
        all.extend(fills.map(|fill| of(fill, inputs)));
    }
    let others = [Fill::Ones, Fill::Zeros, Fill::Hundreds, Fill::Negative];
    for fill in others {
        let sized = sized.iter().take(SIZES_OF_OTHERS);
        all.extend(sized.map(|inputs| of(fill, inputs)));
    }
    all
}

fn is_integer(input: &TensorConfig) -> bool {
    matches!(input.datatype, DataType::Int32 | DataType::Int64)
}

/// Returns the first dimension of the input with the most dimensions, which is likely the length of a sequence.
fn longest(inputs: &[TensorConfig]) -> i64 {
    let deepest = inputs.iter().map(model_dims).max_by_key(|dims| dims.len());
    deepest.and_then(|dims| dims.first().copied()).unwrap_or(1)
}

/// Runs the batch sizes that a warm-up makes, for each padding bucket, and reports the largest that succeeds.
pub(crate) fn try_sizes(source: &ModelSource, instance: &mut TorchInstance, found: &RunnableInput) {
    let lengths = match source.buckets.as_slice() {
        [] => vec![None],
        buckets => buckets.iter().copied().map(Some).collect(),
    };
    let begun = process_time();
    let time = if instance.runner.placement.is_processor() { BATCHES } else { BATCHES_ON_GPU };
    for length in lengths {
        let found = padded(source, found, length);
        let Some(columns) = columns(source, instance, &found) else {
            continue;
        };
        let mut most_rows = 0;
        for rows in batch_sizes(instance.plan.signature.max_batch_size) {
            let bytes: usize = columns.iter().map(|column| column.parts[0].data.len()).sum();
            let spent = process_time().saturating_sub(begun);
            if rows > 1 && (spent > time || bytes.saturating_mul(rows) > MOST_BYTES) {
                break;
            }
            if run(source, instance, columns.clone(), rows).is_err() {
                break;
            }
            most_rows = rows;
        }
        if most_rows > 0 {
            report_input(instance, &columns, (length, most_rows));
        }
    }
}

fn report_input(instance: &TorchInstance, columns: &[Column], (length, most_rows): (Option<usize>, usize)) {
    let batches = usize::from(instance.plan.signature.max_batch_size > 0);
    let part = |input: &TensorConfig| {
        let column = columns.iter().find(|column| *column.name == *input.name)?;
        let inner: Vec<i64> = column.shape.signed().skip(batches).collect();
        Some(RequestTensor { shape: Shape::new(&inner).ok()?, ..column.parts.first()?.clone() })
    };
    let input = WarmUpInput { length, most_rows, row: instance.plan.signature.inputs.iter().map(part).collect() };
    report(&Report::WarmUp(WarmUpData::of(&input)));
}

/// Returns the input with its first variable dimension set to a bucket's length.
fn padded(source: &ModelSource, found: &RunnableInput, length: Option<usize>) -> RunnableInput {
    let mut padded = found.clone();
    let Some(length) = length else { return padded };
    for (input, configured) in padded.inputs.iter_mut().zip(&source.inputs) {
        let axis = model_dims(configured).iter().position(|dim| *dim < 0);
        let own = input.reshape.as_mut().unwrap_or(&mut input.dims);
        if let Some(dim) = axis.and_then(|axis| own.get_mut(axis)) {
            *dim = length as i64;
        }
    }
    padded
}

/// Returns one row of each required input; `None` if an input cannot be generated.
fn columns(source: &ModelSource, instance: &TorchInstance, found: &RunnableInput) -> Option<Vec<Column>> {
    let rows = match instance.plan.signature.max_batch_size {
        0 => Rows::None,
        _ => Rows::Range(0..1),
    };
    let trial = Trial::of(source, &instance.runner, &found.inputs, found.fill).ok()?;
    let columns = trial.columns(&rows).ok()?.into_iter().zip(&found.inputs);
    let columns = columns.filter(|(_, input)| !input.optional);
    Some(columns.map(|(column, _)| column).collect())
}

/// Runs a batch of `rows` copies of the row, and checks that the output can be turned into a response. Returns the
/// dimensions of each output, without the batch dimension.
fn run(
    source: &ModelSource,
    instance: &mut TorchInstance,
    columns: Vec<Column>,
    rows: usize,
) -> Result<Vec<Vec<i64>>, ModelError> {
    let signature = instance.plan.signature.clone();
    let columns = match signature.max_batch_size {
        0 => Some(columns),
        _ => columns.into_iter().map(|column| repeated(column, rows)).collect(),
    };
    let Some(columns) = columns else {
        return Err(ModelError::Failed("its inputs are too large".to_owned()));
    };
    let batch = Batch {
        rows,
        columns,
        requests: vec![RequestInfo { rows, parameters: Arc::new(Parameters::new()), staged: None }],
    };
    limited(rows, || {
        let fresh = instance.warm_up_copy();
        let fresh = fresh.map_err(|error| ModelError::Failed(error.to_string()))?;
        let answer = match fresh {
            Some(mut copy) => copy.run(&batch)?,
            None => instance.run(&batch)?,
        };
        let skipped = usize::from(signature.max_batch_size > 0);
        let shapes = answer.outputs.iter().map(|output| output.shape().signed().skip(skipped).collect()).collect();
        check_output(&source.name, &signature, answer, rows).map_err(ModelError::Failed)?;
        Ok(shapes)
    })
}

fn repeated(column: Column, rows: usize) -> Option<Column> {
    let inner = column.shape.signed().skip(1);
    let dims: Vec<i64> = [rows as i64].into_iter().chain(inner).collect();
    let shape = Shape::new(&dims).ok()?;
    let part = column.parts.first()?;
    let part =
        RequestTensor { shape: shape.clone(), datatype: part.datatype, data: Bytes::from(part.data.repeat(rows)) };
    Some(Column { shape, parts: vec![part], ..column })
}

/// Returns the batch sizes to try: 1, 2, 4, … and the largest.
fn batch_sizes(max_batch_size: usize) -> Vec<usize> {
    let most = max_batch_size.max(1);
    let doubled = std::iter::successors(Some(1), |size| Some(size * 2));
    let mut sizes: Vec<usize> = doubled.take_while(|size| *size < most).collect();
    sizes.push(most);
    sizes
}

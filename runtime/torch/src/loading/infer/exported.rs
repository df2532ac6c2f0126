//! The signature of an exported program: the file says names, types and sizes, and the graph proves whether rows are
//! independent. Trials decide only what the proof leaves open.

use weir_exported::{Dimension, Input, Number, Output, OutputKind, Program, Verdict};
use weir_protocol::DataType;
use weir_runtime::backend::{LoadError, ModelSource, ShapeTolerance, Signature, TensorConfig};

use super::independence;
use super::trial::{Rows, Trial};
use super::{DEFAULT_MAX_BATCH_SIZE, Inferred};
use crate::execution::outputs::names;
use crate::execution::runner::Runner;
use crate::libtorch::element;
use crate::loading::Remark;
use crate::loading::sandbox::{Stage, enter};
use crate::module::Returned;

/// The batching of a program, by what the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Batching {
    /// Rows are independent, up to this number.
    Proven(usize),
    /// Trials decide, up to this number of rows. The text is the operator that the proof cannot decide.
    ByTrial(usize, String),
    /// Each request runs alone; the text is the operator that couples the rows, and empty without a batch dimension.
    Never(String),
}

/// Returns the signature of a program. Configured parts are kept. `doubt` is the reason to make no trials.
pub(crate) fn signature(
    source: &ModelSource,
    runner: &Runner,
    program: &Program,
    doubt: Option<&str>,
) -> Result<Inferred, LoadError> {
    let batching = batching(program);
    let mut remarks = Vec::new();
    let max_batch_size = match (source.max_batch_size, batching) {
        (Some(configured), Batching::Never(operator)) if configured > 0 && !operator.is_empty() => {
            remarks.push(mixed(&operator));
            configured
        }
        (Some(configured), _) => configured,
        (None, Batching::Proven(most)) => most,
        (None, Batching::ByTrial(most, operator)) => match by_trial(source, runner, program, (most, doubt)) {
            Ok(()) => most,
            Err(reason) => {
                remarks.push(alone(format!("the proof stops at {operator}, and trials say: {reason}")));
                0
            }
        },
        (None, Batching::Never(operator)) => {
            remarks.extend((!operator.is_empty()).then(|| alone(format!("{operator} mixes the rows of a batch"))));
            0
        }
    };
    let skip = usize::from(max_batch_size > 0);
    let mut signature = Signature {
        inputs: inputs(source, program, skip)?,
        outputs: outputs(source, program, skip)?,
        max_batch_size,
        tolerance: ShapeTolerance::None,
    };
    if source.outputs.is_empty() && doubt.is_none() {
        let inputs = sized(&signature.inputs, program, skip);
        correct(source, runner, &inputs, &mut signature);
    }
    let ran = source.inputs.is_empty().then(|| sized(&signature.inputs, program, skip));
    Ok(Inferred { signature, ran, remarks })
}

/// Returns the signature of a program by its file alone, and the reason for its batch size; `None` if only trials can
/// tell whether rows share a batch.
pub(crate) fn of_file(source: &ModelSource, program: &Program) -> Result<Option<(Signature, String)>, LoadError> {
    let (most, reason) = match (source.max_batch_size, batching(program)) {
        (Some(configured), _) => (configured, "as configured".to_owned()),
        (None, Batching::Proven(most)) => (most, "the graph proves that the rows are independent".to_owned()),
        (None, Batching::Never(operator)) if operator.is_empty() => {
            (0, "the inputs have no common variable dimension in front".to_owned())
        }
        (None, Batching::Never(operator)) => (0, format!("{operator} mixes the rows of a batch")),
        (None, Batching::ByTrial(..)) => return Ok(None),
    };
    let skip = usize::from(most > 0);
    let signature = Signature {
        inputs: inputs(source, program, skip)?,
        outputs: outputs(source, program, skip)?,
        max_batch_size: most,
        tolerance: ShapeTolerance::None,
    };
    Ok(Some((signature, reason)))
}

fn batching(program: &Program) -> Batching {
    let Some(batch) = program.batch() else { return Batching::Never(String::new()) };
    let most = batch.most.unwrap_or(DEFAULT_MAX_BATCH_SIZE);
    match program.verdict(&batch) {
        Verdict::Proven => Batching::Proven(most),
        Verdict::Coupled(operator) => Batching::Never(operator),
        Verdict::Unknown(operator) => Batching::ByTrial(most, operator),
    }
}

/// Tries rows beside other rows.
fn by_trial(
    source: &ModelSource,
    runner: &Runner,
    program: &Program,
    (most, doubt): (usize, Option<&str>),
) -> Result<(), String> {
    if let Some(doubt) = doubt {
        return Err(format!("the trial {doubt}"));
    }
    let described = inputs(source, program, 1).map_err(|error| error.to_string())?;
    enter(Stage::Batches);
    let checked = independence::check(source, runner, &sized(&described, program, 1), most);
    enter(Stage::Inputs);
    checked.map_err(|dependence| dependence.reason().to_owned())
}

fn mixed(operator: &str) -> Remark {
    Remark::new(
        "rows of a batch depend on each other, and requests of different clients share runs",
        format!("{operator} mixes the rows of a batch"),
        "with max_batch_size: 0 each request runs by itself",
    )
}

pub(super) fn alone(reason: String) -> Remark {
    Remark::new(
        "each request runs by itself, because the rows of a batch are not known to be independent",
        reason,
        "if they are, configure max_batch_size, inputs and outputs in config.pbtxt",
    )
}

fn inputs(source: &ModelSource, program: &Program, skip: usize) -> Result<Vec<TensorConfig>, LoadError> {
    if !source.inputs.is_empty() {
        return Ok(source.inputs.clone());
    }
    let input = |input: &Input| {
        let datatype = datatype(input.element_type, &format!("input '{}'", input.name))?;
        Ok(config(input.name.clone(), datatype, &input.dimensions, skip))
    };
    program.inputs.iter().map(input).collect()
}

fn outputs(source: &ModelSource, program: &Program, skip: usize) -> Result<Vec<TensorConfig>, LoadError> {
    if !source.outputs.is_empty() {
        return Ok(source.outputs.clone());
    }
    let paths = program.outputs.iter().map(|output| output.path.clone()).collect();
    let names = names(&Returned::Fixed(paths), &[]);
    let output = |(output, name): (&Output, String)| match &output.kind {
        OutputKind::Tensor(element_type, dimensions) => {
            let datatype = datatype(*element_type, &format!("output '{name}'"))?;
            Ok(config(name, datatype, dimensions, skip))
        }
        OutputKind::Number(number) => Ok(config(name, of_number(*number), &[Dimension::Fixed(1)], 0)),
    };
    program.outputs.iter().zip(names).map(output).collect()
}

fn datatype(element_type: i32, what: &str) -> Result<DataType, LoadError> {
    // The types from 8 to 10 are complex.
    let remedy = match element_type {
        8..=10 => ": pass complex numbers as torch.view_as_real(x)",
        _ => "",
    };
    let unknown = || LoadError::Config(format!("{what} has an element type that V2 does not have{remedy}"));
    element::datatype(element_type).ok_or_else(unknown)
}

fn of_number(number: Number) -> DataType {
    match number {
        Number::Int => DataType::Int64,
        Number::Float => DataType::Fp64,
        Number::Bool => DataType::Bool,
    }
}

fn config(name: String, datatype: DataType, dimensions: &[Dimension], skip: usize) -> TensorConfig {
    let size = |dimension: &Dimension| match dimension {
        Dimension::Fixed(size) => *size,
        Dimension::Variable => -1,
    };
    TensorConfig::new(name, datatype, dimensions.iter().skip(skip).map(size).collect::<Vec<_>>())
}

/// Returns the inputs with the sizes of the example that the program was exported with.
fn sized(inputs: &[TensorConfig], program: &Program, skip: usize) -> Vec<TensorConfig> {
    let of_example = |(input, own): (&TensorConfig, &Input)| TensorConfig {
        dims: own.example.iter().skip(skip).copied().collect(),
        ..input.clone()
    };
    inputs.iter().zip(&program.inputs).map(of_example).collect()
}

/// Opens the dimensions of outputs that a run contradicts: an export records some sizes wrongly, such as those of an
/// LSTM's state. `inputs` have a size for each dimension.
pub(super) fn correct(source: &ModelSource, runner: &Runner, inputs: &[TensorConfig], signature: &mut Signature) {
    let skip = usize::from(signature.max_batch_size > 0);
    let rows = if skip == 0 { Rows::None } else { Rows::Range(0..signature.max_batch_size.min(2)) };
    let Some(seen) = Trial::new(source, runner, inputs).ok().and_then(|trial| trial.run(rows, None).ok()) else {
        return;
    };
    for (output, run_output) in signature.outputs.iter_mut().zip(seen) {
        let own = run_output.sizes.get(skip..).unwrap_or_default();
        let fits = own.len() == output.dims.len();
        if !fits {
            output.dims = vec![-1; own.len()];
        }
        for (dim, size) in output.dims.iter_mut().zip(own) {
            if *dim != *size {
                *dim = -1;
            }
        }
    }
}

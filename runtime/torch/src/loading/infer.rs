//! Infers the parts of a model's signature that its configuration leaves out.
//!
//! Names and number of the inputs come from the method's schema. Datatypes and dimensions come from the example that a
//! module was traced with, otherwise from candidates: shapes that the weights used first on each argument suggest.
//! Outputs and the batch dimension come from trial runs on generated inputs. Dimensions that no trial determines stay
//! open (-1).

mod candidates;
mod combine;
pub(crate) mod exported;
mod extra_ranks;
pub(crate) mod independence;
mod observe;
pub(crate) mod onnx;
mod open;
mod patterns;
mod samples;
mod search;
pub(crate) mod sizes;
pub(crate) mod trial;

use weir_runtime::backend::{LoadError, ModelSource, ShapeTolerance, Signature, TensorConfig};

use crate::execution::runner::{RunOutput, Runner};
use crate::loading::Remark;
use crate::loading::sandbox::{Stage, enter};
use candidates::Candidate;
use independence::Dependence;
use search::{Complaint, Search};
use trial::{Rows, Trial};

/// Largest batch of a model with an inferred batch dimension and no configured limit. Beyond it CPU models gain
/// little, and the engine chooses smaller batches where those are faster.
const DEFAULT_MAX_BATCH_SIZE: usize = 32;

/// An inferred signature, with the evidence for it.
#[derive(Clone, Debug)]
pub(crate) struct Inferred {
    pub(crate) signature: Signature,
    /// Inputs that the model has run on, with a size for each dimension; `None` if no run succeeded.
    pub(crate) ran: Option<Vec<TensorConfig>>,
    pub(crate) remarks: Vec<Remark>,
}

impl Inferred {
    /// Returns a signature that no run has confirmed.
    pub(crate) fn of(signature: Signature) -> Self {
        Self { signature, ran: None, remarks: Vec::new() }
    }
}

/// Infers the missing parts of the signature; configured parts are kept. `doubt` is the reason not to try batches, in
/// words that follow "the trial".
pub(crate) fn signature(source: &ModelSource, runner: &Runner, doubt: Option<&str>) -> Result<Inferred, LoadError> {
    let mut search = Search::new(source, runner, doubt);
    if may_batch(source, runner, doubt) {
        let candidates = match source.inputs.as_slice() {
            [] => candidates::batched(source, &runner.module)?,
            [_, ..] => configured(source, runner, 1)?,
        };
        if let Some(found) = search.batched(candidates, batched)? {
            return Ok(found);
        }
    }
    if source.max_batch_size.unwrap_or(0) == 0 {
        let candidates = match source.inputs.as_slice() {
            [] => candidates::whole(source, &runner.module)?,
            [_, ..] => configured(source, runner, 0)?,
        };
        if let Some(mut found) = search.whole(candidates, whole)? {
            let remark = independence::unbatched(source, runner, search.mixing());
            found.remarks.extend(remark);
            found.signature = candidates::with_settings(source, runner, found.signature);
            return Ok(found);
        }
    }
    without_trial(source, runner, search.complaint())
}

/// Returns candidates for the configured inputs, with sizes for open dimensions. `rows` is 1 if examples have a batch
/// dimension that the configuration leaves out, otherwise 0.
fn configured(source: &ModelSource, runner: &Runner, rows: usize) -> Result<Vec<Candidate>, LoadError> {
    let sized = sizes::of_inputs(source, &runner.module, (&source.inputs, rows))?;
    Ok(sized.into_iter().map(Candidate::of).collect())
}

/// Returns true if a batch dimension should be tried: the configuration has one, or it says nothing and requests may
/// share a run. They may not if the model changes its own state, which all rows would share, or takes one value for the
/// whole batch.
fn may_batch(source: &ModelSource, runner: &Runner, doubt: Option<&str>) -> bool {
    match source.max_batch_size {
        Some(configured) => configured > 0,
        None => {
            let state = runner.module.self_writes().reason();
            let one_value = candidates::has_one_value(source, &runner.module);
            doubt.is_none() && state.is_none() && !one_value
        }
    }
}

/// Accepts a batch dimension if each row has the same outputs alone and in a batch, or if the configuration has one.
fn batched(
    search: &Search<'_>,
    trial: &Trial<'_>,
    candidate: &Candidate,
    seen: &[RunOutput],
) -> Result<Inferred, Dependence> {
    let (source, runner, inputs) = (search.source, search.runner, &candidate.inputs);
    enter(Stage::Batches);
    let remark = match (source.max_batch_size, search.doubt) {
        (Some(configured), None) => independence::if_mixed(source, runner, inputs, configured),
        (Some(_), Some(_)) => None,
        (None, _) => {
            independence::check(source, runner, inputs, DEFAULT_MAX_BATCH_SIZE)?;
            None
        }
    };
    let mut signature = observed(search, trial, candidate, (seen, &Rows::Range(0..2)))?;
    signature.max_batch_size = source.max_batch_size.unwrap_or(DEFAULT_MAX_BATCH_SIZE);
    let signature = extra_ranks::with(source, runner, trial, signature);
    enter(Stage::Inputs);
    Ok(Inferred { signature, ran: Some(inputs.clone()), remarks: remark.into_iter().collect() })
}

fn whole(
    search: &Search<'_>,
    trial: &Trial<'_>,
    candidate: &Candidate,
    seen: &[RunOutput],
) -> Result<Inferred, Dependence> {
    let source = search.source;
    let signature = observed(search, trial, candidate, (seen, &Rows::None))?;
    let signature = extra_ranks::with(source, search.runner, trial, signature);
    Ok(Inferred {
        remarks: extra_ranks::remark(&signature).into_iter().collect(),
        signature,
        ran: Some(candidate.inputs.clone()),
    })
}

/// Returns the signature that runs with inputs of other sizes show. Runs with other values are included if batches may
/// be tried.
fn observed(
    search: &Search<'_>,
    trial: &Trial<'_>,
    candidate: &Candidate,
    (seen, rows): (&[RunOutput], &Rows),
) -> Result<Signature, Dependence> {
    let source = search.source;
    let signature = observe::signature(source, trial, candidate, seen, rows);
    let mut signature = signature.map_err(Dependence::Failed)?;
    if source.outputs.is_empty() && search.doubt.is_none() {
        enter(Stage::Batches);
        observe::mark_sizes_by_values(trial, rows, &mut signature);
    }
    Ok(signature)
}

/// Returns a signature without running the model, for a model whose trials ended the child process.
pub(crate) fn in_doubt(source: &ModelSource, runner: &Runner, doubt: &str) -> Result<Signature, LoadError> {
    if let Some(program) = runner.module.program() {
        return exported::signature(source, runner, program, Some(doubt)).map(|inferred| inferred.signature);
    }
    if let Some(session) = runner.module.session() {
        return onnx::signature(source, runner, session, Some(doubt)).map(|inferred| inferred.signature);
    }
    let complaint = Complaint::Run(format!("the trial {doubt}"));
    without_trial(source, runner, Some(complaint)).map(|inferred| inferred.signature)
}

/// Returns the configured signature if only the batch size is missing from it. Otherwise returns a signature with open
/// shapes, or an error that says what to configure if the model ran and its outputs cannot be served.
fn without_trial(source: &ModelSource, runner: &Runner, complaint: Option<Complaint>) -> Result<Inferred, LoadError> {
    if !source.inputs.is_empty() && !source.outputs.is_empty() {
        return Ok(Inferred::of(Signature {
            inputs: source.inputs.clone(),
            outputs: source.outputs.clone(),
            max_batch_size: source.max_batch_size.unwrap_or(0),
            tolerance: ShapeTolerance::None,
        }));
    }
    if let (Some(_), [], Some(complaint)) = (&source.example, source.inputs.as_slice(), &complaint) {
        return Err(LoadError::Config(format!(
            "model '{}' does not answer its own example: {}",
            source.name,
            complaint.reason()
        )));
    }
    if runner.placement.is_processor() && runner.module.names_cuda() {
        return Err(needs_cuda(source, complaint.as_ref()));
    }
    let (reason, open) = match complaint {
        Some(Complaint::Outputs(reason)) => (reason, None),
        Some(Complaint::Run(reason)) => (reason, open::signature(source, runner)?),
        None => ("no candidate for its inputs was found".to_owned(), None),
    };
    if let Some(signature) = open {
        return Ok(Inferred { remarks: vec![open::remark(&reason)], ..Inferred::of(signature) });
    }
    let arguments = runner.module.arguments().iter();
    let arguments: Vec<String> =
        arguments.map(|argument| format!("{}: {}", argument.name, argument.type_text)).collect();
    Err(LoadError::Config(format!(
        "the inputs and outputs of model '{}' cannot be inferred: forward takes ({}), and the trial run that got \
         furthest failed: {reason}. Add them to config.pbtxt, each with name, data_type and dims, or put a request \
         beside the model as example.json",
        source.name,
        arguments.join(", ")
    )))
}

fn needs_cuda(source: &ModelSource, complaint: Option<&Complaint>) -> LoadError {
    LoadError::Config(format!(
        "model '{}' does not run on the CPU, where it is to be served: its code names a CUDA device, as it does when it \
         is traced on a GPU. Move it to the CPU before it is scripted or traced, create tensors on the device of an \
         input (device=x.device), or serve it on a GPU. {}",
        source.name,
        complaint.map_or("", Complaint::reason)
    ))
}

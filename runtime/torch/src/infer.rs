//! Infers the parts of a signature that a configuration leaves out, from the module and from trial runs on
//! generated inputs: names and count come from the schema; datatypes and dimensions from a traced module's
//! example, otherwise from candidates that the weights suggest which each argument meets first; outputs and the
//! batch dimension from the results of the trials. What no trial shows is left open.

mod candidates;
mod combine;
pub(crate) mod independence;
mod leeway;
mod observe;
mod open;
mod patterns;
mod samples;
mod search;
pub(crate) mod trial;

use weir_runtime::backend::{Leeway, LoadError, ModelSource, Signature};

use crate::runner::{RunOutput, Runner};
use candidates::Candidate;
use independence::Dependence;
use search::{Complaint, Search};
use trial::{Rows, Trial};

/// Largest batch of a model with an inferred batch dimension and no configured limit. Beyond it CPU models gain
/// little, and the engine chooses smaller batches where those are faster.
const DEFAULT_MAX_BATCH_SIZE: usize = 32;

/// Infers the signature; whatever the configuration has is kept.
pub(crate) fn signature(source: &ModelSource, runner: &Runner) -> Result<Signature, LoadError> {
    let mut search = Search::new(source, runner);
    if may_batch(source, runner) {
        let candidates = candidates::batched(source, &runner.module)?;
        if let Some(found) = search.batched(candidates, batched)? {
            return Ok(found);
        }
    }
    if source.max_batch_size.unwrap_or(0) == 0 {
        let candidates = candidates::whole(source, &runner.module)?;
        if let Some(found) = search.whole(candidates, whole)? {
            independence::warn_unbatched(source, runner, search.mixing());
            return Ok(candidates::with_settings(source, runner, found));
        }
    }
    without_trial(source, runner, search.complaint())
}

/// Checks whether to look for a batch dimension: not in a model that changes itself, unless the configuration says
/// so, because the rows of a batch would meet one state, and leave one; nor in one that takes a number for them all.
fn may_batch(source: &ModelSource, runner: &Runner) -> bool {
    match source.max_batch_size {
        Some(configured) => configured > 0,
        None => {
            let state = runner.module.self_writes().reason();
            state.is_none() && !candidates::has_one_value(source, &runner.module)
        }
    }
}

/// Accepts a batch dimension if rows have the same outputs alone and together, or the configuration says so.
fn batched(
    source: &ModelSource,
    runner: &Runner,
    trial: &Trial<'_>,
    candidate: &Candidate,
    seen: &[RunOutput],
) -> Result<Signature, Dependence> {
    let inputs = &candidate.inputs;
    match source.max_batch_size {
        Some(configured) => independence::warn_if_mixed(source, runner, inputs, configured),
        None => independence::check(source, runner, inputs, DEFAULT_MAX_BATCH_SIZE)?,
    }
    let signature = observe::signature(source, trial, candidate, seen, &Rows::Range(0..2));
    let mut signature = signature.map_err(Dependence::Failed)?;
    signature.max_batch_size = source.max_batch_size.unwrap_or(DEFAULT_MAX_BATCH_SIZE);
    Ok(leeway::with(source, runner, trial, signature))
}

fn whole(
    source: &ModelSource,
    runner: &Runner,
    trial: &Trial<'_>,
    candidate: &Candidate,
    seen: &[RunOutput],
) -> Result<Signature, Dependence> {
    let signature = observe::signature(source, trial, candidate, seen, &Rows::None);
    let signature = signature.map_err(Dependence::Failed)?;
    Ok(leeway::with(source, runner, trial, signature))
}

/// Takes a configuration that is complete but for the batch size. Otherwise the shapes are left open, unless the
/// model ran and its outputs cannot be served; the error says what to add.
fn without_trial(
    source: &ModelSource,
    runner: &Runner,
    complaint: Option<Complaint>,
) -> Result<Signature, LoadError> {
    if !source.inputs.is_empty() && !source.outputs.is_empty() {
        return Ok(Signature {
            inputs: source.inputs.clone(),
            outputs: source.outputs.clone(),
            max_batch_size: source.max_batch_size.unwrap_or(0),
            leeway: Leeway::None,
        });
    }
    if let (Some(_), [], Some(complaint)) = (&source.example, source.inputs.as_slice(), &complaint)
    {
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
        open::announce(source, &reason);
        return Ok(signature);
    }
    let arguments = runner.module.arguments().iter();
    let arguments: Vec<String> = arguments
        .map(|argument| format!("{}: {}", argument.name, argument.type_text))
        .collect();
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

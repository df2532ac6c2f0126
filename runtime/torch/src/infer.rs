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
pub(crate) mod sizes;
pub(crate) mod trial;

use weir_runtime::backend::{Leeway, LoadError, ModelSource, Signature, TensorConfig};

use crate::remark::Remark;
use crate::runner::{RunOutput, Runner};
use crate::sandbox::{Stage, enter};
use candidates::Candidate;
use independence::Dependence;
use search::{Complaint, Search};
use trial::{Rows, Trial};

/// Largest batch of a model with an inferred batch dimension and no configured limit. Beyond it CPU models gain
/// little, and the engine chooses smaller batches where those are faster.
const DEFAULT_MAX_BATCH_SIZE: usize = 32;

/// A signature, and what its inference has shown.
#[derive(Clone, Debug)]
pub(crate) struct Inferred {
    pub(crate) signature: Signature,
    /// The inputs that the model ran on, with a size for each dimension.
    pub(crate) ran: Option<Vec<TensorConfig>>,
    pub(crate) remarks: Vec<Remark>,
}

impl Inferred {
    /// A signature that no run has shown.
    pub(crate) fn of(signature: Signature) -> Self {
        Self { signature, ran: None, remarks: Vec::new() }
    }
}

/// Infers the signature; whatever the configuration has is kept. `doubt` is the reason not to try batches, in words that
/// follow "the trial".
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

/// The inputs of the configuration, with sizes for open dimensions; `rows` is 1 where examples have a batch dimension.
fn configured(source: &ModelSource, runner: &Runner, rows: usize) -> Result<Vec<Candidate>, LoadError> {
    let sized = sizes::of_inputs(source, &runner.module, (&source.inputs, rows))?;
    Ok(sized.into_iter().map(Candidate::of).collect())
}

/// Checks whether to look for a batch dimension: not in a model that changes itself, unless the configuration says
/// so, because the rows of a batch would meet one state, and leave one; nor in one that takes a number for them all.
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

/// Accepts a batch dimension if rows have the same outputs alone and together, or the configuration says so.
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
    let signature = observe::signature(source, trial, candidate, seen, &Rows::Range(0..2));
    let mut signature = signature.map_err(Dependence::Failed)?;
    signature.max_batch_size = source.max_batch_size.unwrap_or(DEFAULT_MAX_BATCH_SIZE);
    let signature = leeway::with(source, runner, trial, signature);
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
    let signature = observe::signature(source, trial, candidate, seen, &Rows::None);
    let signature = signature.map_err(Dependence::Failed)?;
    let signature = leeway::with(source, search.runner, trial, signature);
    Ok(Inferred {
        remarks: leeway::remark(&signature).into_iter().collect(),
        signature,
        ran: Some(candidate.inputs.clone()),
    })
}

/// A signature without any run, where the trials did not survive one.
pub(crate) fn in_doubt(source: &ModelSource, runner: &Runner, doubt: &str) -> Result<Signature, LoadError> {
    let complaint = Complaint::Run(format!("the trial {doubt}"));
    without_trial(source, runner, Some(complaint)).map(|inferred| inferred.signature)
}

/// Takes a configuration that is complete but for the batch size. Otherwise the shapes are left open, unless the
/// model ran and its outputs cannot be served; the error says what to add.
fn without_trial(source: &ModelSource, runner: &Runner, complaint: Option<Complaint>) -> Result<Inferred, LoadError> {
    if !source.inputs.is_empty() && !source.outputs.is_empty() {
        return Ok(Inferred::of(Signature {
            inputs: source.inputs.clone(),
            outputs: source.outputs.clone(),
            max_batch_size: source.max_batch_size.unwrap_or(0),
            leeway: Leeway::None,
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

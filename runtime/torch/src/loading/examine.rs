//! The trial of a load: the work of the child process, and the server's verdict from its reports.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use weir_runtime::args::DeviceChoice;
use weir_runtime::backend::{
    Device, Instance, LoadError, ModelSource, STACK_OF_MODELS, ShapeTolerance, Signature, WarmUpInput,
};
use weir_runtime::model_file::{self, Digest};

use crate::execution::graphs::Graphs;
use crate::execution::instance::{Plan, TorchInstance};
use crate::execution::runner::Runner;
use crate::loading::Remark;
use crate::loading::infer::{self, Inferred, independence};
use crate::loading::sandbox::{self, End, Report, Request, Sandbox, Scope, Stage, enter, limited_to, report};
use crate::loading::warm_up::{self, RunnableInput, contradiction};
use crate::loading::weights::Weights;
use crate::settings::{FORWARD, Settings};
use crate::{
    libtorch::cuda, libtorch::op_libraries, libtorch::process, loading::file, loading::optimize, loading::plan,
};

/// The findings of the trials of one load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    /// The signature; `None` if the trials ended before it was known.
    pub(crate) signature: Option<Signature>,
    pub(crate) remarks: Vec<Remark>,
    /// The way the child process ended if it did not complete the trials, in words that follow "the trial".
    pub(crate) doubt: Option<String>,
    /// True if the module optimised for inference is faster than the saved one.
    pub(crate) is_faster_optimised: bool,
    /// Warm-up inputs that the model has run on.
    pub(crate) warm_up: Vec<WarmUpInput>,
    /// True if a later trial may find more, so the verdict is not cached.
    is_temporary: bool,
}

/// Advice to the operator of a model in doubt.
const INSTEAD: &str = "a request with such values would end the server: let the model check its inputs, as by \
                       torch.isfinite; configure max_batch_size, inputs and outputs in config.pbtxt to have it batched";

/// Largest number of cached verdicts: a server has some dozens of models.
const MOST_VERDICTS: usize = 64;

/// Largest size of the warm-up inputs of a cached verdict, in bytes.
const MOST_BYTES: usize = 256 << 10;

/// The identity of a trial: a digest of the model file, and a hash of the rest of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    digest: Digest,
    request: u64,
}

/// The latest verdicts, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Verdicts(Mutex<VecDeque<(Key, Verdict)>>);

impl Key {
    /// Returns the key of a request; `None` if a file of the request cannot be identified.
    fn of(request: &Request) -> Option<Self> {
        // Operator libraries are further files, whose contents the key does not cover.
        if !request.source.op_libraries.is_empty() {
            return None;
        }
        let mut asked = request.clone();
        asked.source.path.clear();
        let mut hasher = DefaultHasher::new();
        serde_json::to_vec(&asked).ok()?.hash(&mut hasher);
        let example = request.source.example.iter().flatten();
        example.for_each(|tensor| tensor.data().hash(&mut hasher));
        let samples = request.source.samples.iter().flat_map(|sample| &sample.inputs);
        samples.for_each(|(_, part)| part.data.hash(&mut hasher));
        Some(Self { digest: model_file::digest(&request.source.path)?, request: hasher.finish() })
    }
}

impl Verdicts {
    fn find(&self, key: Key) -> Option<Verdict> {
        let kept = self.0.lock();
        let mut kept = kept.iter();
        kept.find_map(|(other, verdict)| (*other == key).then(|| verdict.clone()))
    }

    /// Caches a verdict, unless its warm-up inputs are large.
    fn keep(&self, key: Key, verdict: &Verdict) {
        let parts = verdict.warm_up.iter().flat_map(|input| input.row.iter().flatten());
        if parts.map(|part| part.data.len()).sum::<usize>() > MOST_BYTES {
            return;
        }
        let mut kept = self.0.lock();
        kept.retain(|(other, _)| *other != key);
        if kept.len() >= MOST_VERDICTS {
            kept.pop_front();
        }
        kept.push_back((key, verdict.clone()));
    }
}

/// Tries to load a model in a child process. If the child dies while it tries batches, a second child tries the load
/// without batches.
///
/// # Errors
/// [`LoadError`] if the model cannot be served, or if the server is stopping.
pub(crate) fn examine(sandbox: &Sandbox, verdicts: &Verdicts, source: &ModelSource) -> Result<Verdict, LoadError> {
    let mut request = Request::new(source);
    let key = Key::of(&request);
    if let Some(verdict) = key.and_then(|key| verdicts.find(key)) {
        return Ok(verdict);
    }
    let (mut verdict, stage) = match attempt(sandbox, &request) {
        Err(LoadError::Device(reason)) if is_on_gpu(source) => on_processor(sandbox, &request, reason)?,
        done => done?,
    };
    if stage == Stage::Batches && verdict.signature.is_none() {
        request.doubt.clone_from(&verdict.doubt);
        let (second, _) = attempt(sandbox, &request)?;
        verdict = verdict.followed_by(second);
    }
    if verdict.signature.is_none() && !source.samples.is_empty() {
        request.doubt.clone_from(&verdict.doubt);
        request.scope = Scope::Samples;
        attempt(sandbox, &request)?;
    }
    if let Some(key) = key.filter(|_| !verdict.is_temporary) {
        verdicts.keep(key, &verdict);
    }
    Ok(verdict)
}

fn is_on_gpu(source: &ModelSource) -> bool {
    source.devices.iter().any(|device| *device != Device::Cpu)
}

/// Tries the model on the CPU after the child could not use a GPU: the server may hold the GPU exclusively, or all of
/// its memory. The error is the GPU's if the CPU trial fails too.
fn on_processor(sandbox: &Sandbox, request: &Request, reason: String) -> Result<(Verdict, Stage), LoadError> {
    let mut request = request.clone();
    request.source.devices = vec![Device::Cpu];
    let Ok((mut verdict, stage)) = attempt(sandbox, &request) else {
        return Err(LoadError::Device(reason));
    };
    verdict.is_faster_optimised = false;
    verdict.is_temporary = true;
    Ok((verdict, stage))
}

/// Runs one child. Returns its findings, and the last stage that it entered.
fn attempt(sandbox: &Sandbox, request: &Request) -> Result<(Verdict, Stage), LoadError> {
    let (mut verdict, mut stage) = (Verdict::default(), Stage::Load);
    let scratch = file::scratch(&request.source)?;
    let request = &Request { scratch: scratch.as_ref().map(|folder| folder.path().to_owned()), ..request.clone() };
    let end = sandbox.run(request, |report| verdict.add(report, &mut stage));
    let file = request.source.path.display();
    match (end, stage) {
        (End::Done, _) => {}
        (End::Refused(error), _) => return Err(error),
        (End::Closed, _) => {
            return Err(LoadError::File("the server is stopping".to_owned()));
        }
        (End::Died(how), Stage::Load) => {
            return Err(LoadError::File(format!("model file '{file}' cannot be loaded: the trial of it {how}")));
        }
        (End::Died(how) | End::Lost(how), Stage::Sample(index)) => {
            let name = request.source.samples.get(index).map_or("", |sample| &sample.name);
            return Err(LoadError::Warmup(format!("warm-up sample '{name}' failed: the trial of it {how}")));
        }
        (End::Died(how), Stage::Inputs | Stage::Batches | Stage::WarmUp) => {
            verdict.remarks.push(in_doubt(&how));
            verdict.doubt = Some(how);
        }
        (End::Lost(how), _) => {
            verdict.remarks.push(in_doubt(&how));
            verdict.doubt = Some(how);
            verdict.is_temporary = true;
        }
    }
    Ok((verdict, stage))
}

fn in_doubt(how: &str) -> Remark {
    Remark::new(
        "the model is in doubt: it is served as far as trials in a child process got",
        format!("the trial {how}"),
        INSTEAD,
    )
}

impl Verdict {
    /// Adds the findings of a second child to the outcome of the first, which did not complete.
    fn followed_by(mut self, second: Self) -> Self {
        self.remarks.extend(second.remarks);
        Self {
            remarks: self.remarks,
            doubt: second.doubt.or(self.doubt),
            is_temporary: self.is_temporary || second.is_temporary,
            ..second
        }
    }

    fn add(&mut self, report: Report, stage: &mut Stage) {
        match report {
            Report::Stage(entered) => *stage = entered,
            Report::Signature(signature) => self.signature = Some(signature),
            Report::Remark(remark) => self.remarks.push(remark),
            Report::Optimised => self.is_faster_optimised = true,
            Report::WarmUp(input) => self.warm_up.extend(input.into_input().ok()),
            // These reports are handled where the child's end is awaited.
            Report::Done | Report::Refused { .. } | Report::Ended(_) => {}
        }
    }
}

/// Runs in the child: reads the request, tries the load on a thread with the stack size of a server's model threads,
/// and reports the result. Returns the exit code.
pub(crate) fn serve() -> i32 {
    let Some(request) = sandbox::request() else {
        return 1;
    };
    if let Some(folder) = &request.scratch {
        process::set_temporary_folder(folder);
    }
    let thread = std::thread::Builder::new().stack_size(STACK_OF_MODELS);
    let Ok(thread) = thread.spawn(move || examine_here(request)) else {
        return 1;
    };
    match thread.join() {
        Ok(Ok(())) => report(&Report::Done),
        Ok(Err(error)) => report(&Report::refused(error)),
        Err(_) => return 101,
    }
    0
}

fn examine_here(request: Request) -> Result<(), LoadError> {
    let (doubt, scope) = (request.doubt.clone(), request.scope);
    let source = request.into_source();
    let source = source.map_err(|error| LoadError::Config(error.to_string()))?;
    enter(Stage::Load);
    if is_on_gpu(&source) {
        cuda::find_gpus(DeviceChoice::AllCuda)?;
    } else {
        sandbox::limit_memory();
    }
    let settings = Settings::parse(&source.parameters)?;
    sandbox::set_threads(settings.intra_op_threads);
    op_libraries::open(&source.name, &source.op_libraries)?;
    process::apply(&source.name, settings.process);
    process::set_profiling(&source.devices);
    // All devices run the same code, so one device suffices for the trial.
    let first = source.devices.first().copied().unwrap_or(Device::Cpu);
    let source = ModelSource { devices: vec![first], ..source };
    let weights = Weights::load(&source, &settings)?;
    let runner = plan::runner(&settings, weights.on(first)?, first)?;
    if scope == Scope::Samples {
        let signature = infer::in_doubt(&source, &runner, doubt.as_deref().unwrap_or_default())?;
        let plan = plan::bind(&source, &runner, signature)?;
        run_samples(&source, &mut instance(&runner, &Arc::new(plan)));
        return Ok(());
    }
    enter(Stage::Inputs);
    let inferred = plan::signature(&source, &runner, doubt.as_deref())?;
    let plan = plan::bind(&source, &runner, inferred.signature.clone())?;
    inferred.remarks.iter().cloned().for_each(remark);
    report(&Report::Signature(plan.signature.clone()));
    let plan = Arc::new(plan);
    run_samples(&source, &mut instance(&runner, &plan));
    if plan.signature.tolerance == ShapeTolerance::Everything {
        return Ok(()); // a model with a guessed signature cannot be warmed up
    }
    enter(Stage::WarmUp);
    try_warm_up(&source, &settings, (runner, plan), inferred)
}

/// Finds an input that the model runs on, and tries everything that the server will do with it. If the configuration
/// has a batch dimension, also tests whether rows are independent, which only leads to a warning.
fn try_warm_up(
    source: &ModelSource,
    settings: &Settings,
    (runner, plan): (Runner, Arc<Plan>),
    inferred: Inferred,
) -> Result<(), LoadError> {
    let mut instance = instance(&runner, &plan);
    let found = match warm_up::find(source, &mut instance, inferred.ran) {
        Ok(found) => found,
        Err(complaints) => {
            remark(complaints.judge(source)?);
            return Ok(());
        }
    };
    if let Some(complaints) = contradiction::find(source, &mut instance, &found) {
        remark(complaints.judge(source)?);
        return Ok(());
    }
    if settings.method == FORWARD
        && let Some(module) = optimize::faster_module(source, &runner, &found)
    {
        report(&Report::Optimised);
        instance.runner.module = module;
    }
    warm_up::try_sizes(source, &mut instance, &found);
    drop(instance);
    warn_of_mixed(source, &runner, &found);
    Ok(())
}

fn warn_of_mixed(source: &ModelSource, runner: &Runner, found: &RunnableInput) {
    let complete = !source.inputs.is_empty() && !source.outputs.is_empty();
    if runner.module.program().is_some() {
        return; // the proof on the graph has been made already
    }
    let Some(rows) = source.max_batch_size.filter(|rows| complete && *rows > 0) else {
        return;
    };
    enter(Stage::Batches);
    if let Some(mixed) = independence::if_mixed(source, runner, &found.inputs, rows) {
        remark(mixed);
    }
}

fn instance(runner: &Runner, plan: &Arc<Plan>) -> TorchInstance {
    TorchInstance::new(Arc::clone(plan), runner.clone(), Graphs::off())
}

fn remark(remark: Remark) {
    report(&Report::Remark(remark));
}

/// Limit on the processor time of one sample. An operator of the server chose the values, so a sample may take far longer
/// than generated inputs.
const LONGEST_SAMPLE: Duration = Duration::from_secs(60);

/// Runs each sample once, on a copy if runs change the model's state. Errors are ignored here, because the server repeats
/// the samples and reports them.
fn run_samples(source: &ModelSource, instance: &mut TorchInstance) {
    let mut copy = instance.warm_up_copy().ok().flatten();
    for (index, sample) in source.samples.iter().enumerate() {
        let Ok(batch) = weir_runtime::sample_batch(&source.name, &instance.plan.signature, sample) else {
            continue;
        };
        enter(Stage::Sample(index));
        let _ = limited_to(LONGEST_SAMPLE, || match &mut copy {
            Some(copy) => copy.run(&batch),
            None => instance.run(&batch),
        });
    }
}

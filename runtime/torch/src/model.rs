//! The libtorch backend and its loaded models.

use std::path::PathBuf;
use std::sync::Arc;

use weir_runtime::backend::{
    Backend, Device, Inspection, Instance, LoadError, Model, ModelSource, Signature, WarmUp, WarmUpInput,
};
use weir_runtime::model_file::{self, ModelFormat};

use crate::execution::graphs::Graphs;
use crate::execution::instance::{Plan, TorchInstance};
use crate::execution::runner::Runner;
use crate::loading::examine::{self, Verdict, Verdicts};
use crate::loading::file;
use crate::loading::sandbox::{self, Sandbox};
use crate::loading::weights::Weights;
use crate::settings::{CudaGraphs, Settings};
use crate::startup::TrimWhenDropped;
use crate::{libtorch::op_libraries, libtorch::process, loading::infer, loading::inspect, loading::plan};

/// Phrase about TorchScript files where only data may be loaded.
const TORCH_SCRIPT_IS_CODE: &str = "is TorchScript, which is code: in Python, torch.export.export the original module with \
     an example, torch.export.save the result, and serve the .pt2 file";

/// Phrase about AOTInductor packages where only data may be loaded.
const COMPILED_IS_CODE: &str = "is an AOTInductor package, which is code: torch.export.save the program that it was compiled from, and serve that file";

/// Serves TorchScript files, programs of torch.export and packages of AOTInductor with libtorch.
#[derive(Debug)]
pub struct TorchBackend {
    sandbox: Sandbox,
    verdicts: Verdicts,
}

impl TorchBackend {
    /// Returns the backend of this program, which must have no other thread yet. Each load is tried in a child process,
    /// forked from a copy of this process. If the program was started as a fork server, this call serves as one and
    /// never returns.
    #[must_use]
    pub fn of_program() -> Self {
        process::check_compiled_inputs();
        sandbox::serve_if_asked(examine::serve);
        Self::of(Sandbox::forked(examine::serve))
    }

    /// Returns a backend whose child processes are forked from `program`, which must call [`TorchBackend::of_program`].
    #[must_use]
    pub fn with_program(program: PathBuf) -> Self {
        Self::of(Sandbox::of(program))
    }

    fn of(sandbox: Sandbox) -> Self {
        Self { sandbox, verdicts: Verdicts::default() }
    }

    /// Tries and loads a file whose format has been checked.
    pub(crate) fn load_checked(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError> {
        let settings = Settings::parse(&source.parameters)?;
        op_libraries::open(&source.name, &source.op_libraries)?;
        let verdict = examine::examine(&self.sandbox, &self.verdicts, source)?;
        file::check_trial(source, verdict.doubt.as_deref())?;
        for remark in &verdict.remarks {
            remark.log(&source.name);
        }
        process::apply(&source.name, settings.process);
        process::set_profiling(&source.devices);
        let first = source.devices.first().copied().unwrap_or(Device::Cpu);
        // Dropped at the end of the load, also if it fails, to return what only the load needed.
        let _trim = TrimWhenDropped::default();
        let weights = Weights::load(source, &settings)?;
        let runner = plan::runner(&settings, weights.on(first)?, first)?;
        warn_in_training(source, &runner);
        let plan = plan::bind(source, &runner, signature_of(source, &runner, &verdict)?)?;
        if verdict.is_faster_optimised {
            weights.optimise(first)?;
        }
        Ok(Arc::new(TorchModel {
            name: source.name.as_str().into(),
            plan: Arc::new(plan),
            weights,
            settings,
            warm_up: verdict.warm_up.into(),
            limitation: verdict.doubt.map(|how| format!("in doubt: the trial {how}")),
        }))
    }
}

impl Backend for TorchBackend {
    fn names(&self) -> &'static [&'static str] {
        &["pytorch", "pytorch_libtorch", "weir-libtorch"]
    }

    fn default_filename(&self) -> Option<&'static str> {
        Some("model.pt")
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError> {
        file::check(&source.path)?;
        file::check_compiled(source)?;
        self.load_checked(source)
    }

    fn code_in(&self, source: &ModelSource) -> Option<String> {
        match model_file::format(&source.path) {
            Ok(ModelFormat::TorchScript) => Some(TORCH_SCRIPT_IS_CODE.to_owned()),
            Ok(ModelFormat::Compiled) => Some(COMPILED_IS_CODE.to_owned()),
            // A file of an unknown format is refused by the load, with its reason.
            Ok(ModelFormat::Exported | ModelFormat::Onnx) | Err(_) => None,
        }
    }

    fn inspect(&self, source: &ModelSource) -> Result<Inspection, LoadError> {
        inspect::inspect(&self.sandbox, &self.verdicts, source)
    }

    fn close(&self) {
        self.sandbox.close();
    }
}

/// A loaded TorchScript file.
#[derive(Debug)]
struct TorchModel {
    name: Arc<str>,
    plan: Arc<Plan>,
    weights: Weights,
    settings: Settings,
    warm_up: Arc<[WarmUpInput]>,
    limitation: Option<String>,
}

impl Model for TorchModel {
    fn signature(&self) -> &Signature {
        &self.plan.signature
    }

    fn warm_up(&self) -> WarmUp {
        match &*self.warm_up {
            [] => WarmUp::Needless,
            [_, ..] => WarmUp::On(Arc::clone(&self.warm_up)),
        }
    }

    fn weight_bytes(&self) -> Option<u64> {
        self.weights.bytes()
    }

    fn limitation(&self) -> Option<&str> {
        self.limitation.as_deref()
    }

    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError> {
        let runner = plan::runner(&self.settings, self.weights.for_instance(device)?, device)?;
        let graphs = match (device, self.settings.graphs) {
            (Device::Cpu, _) | (Device::Cuda(_), CudaGraphs::Off) => Graphs::off(),
            (Device::Cuda(_), CudaGraphs::Auto) => Graphs::new(Arc::clone(&self.name), runner.graph_obstacle()),
        };
        Ok(Box::new(TorchInstance::new(Arc::clone(&self.plan), runner, graphs)))
    }
}

/// Warns if the model was saved in training mode. It runs in that mode, as in PyTorch, which is rarely intended.
fn warn_in_training(source: &ModelSource, runner: &Runner) {
    if runner.module.is_in_training() {
        tracing::warn!(
            model = source.name,
            instead = "call model.eval() before the model is scripted and saved",
            "the model was saved in training mode, in which dropout is by chance and normalisation goes by the batch"
        );
    }
}

/// Returns the signature that the trials found, or one inferred without trials.
fn signature_of(source: &ModelSource, runner: &Runner, verdict: &Verdict) -> Result<Signature, LoadError> {
    match &verdict.signature {
        Some(signature) => Ok(signature.clone()),
        None => infer::in_doubt(source, runner, verdict.doubt.as_deref().unwrap_or_default()),
    }
}

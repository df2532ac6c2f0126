//! The libtorch backend and its models.

use std::sync::Arc;

use weir_runtime::backend::{
    Backend, Device, Instance, Leeway, LoadError, Model, ModelSource, Signature, WarmUp,
};

use crate::cuda_streams::CudaStreams;
use crate::file;
use crate::infer::independence;
use crate::instance::{Plan, TorchInstance};
use crate::module::Returned;
use crate::outputs::{self, Rest};
use crate::peak_memory::PeakMemory;
use crate::process;
use crate::runner::{Gpu, Placement, Runner};
use crate::settings::{FORWARD, Settings};
use crate::startup::{self, TrimWhenDropped};
use crate::weights::{LoadedModule, Weights};
use crate::{binding, infer, op_libraries, optimize};

/// Serves TorchScript files with libtorch.
#[derive(Clone, Copy, Debug, Default)]
pub struct TorchBackend;

impl Backend for TorchBackend {
    fn names(&self) -> &'static [&'static str] {
        &["pytorch", "pytorch_libtorch", "weir-libtorch"]
    }

    fn default_filename(&self) -> Option<&'static str> {
        Some("model.pt")
    }

    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError> {
        let settings = Settings::parse(&source.parameters)?;
        file::check(&source.path)?;
        op_libraries::open(&source.name, &source.op_libraries)?;
        process::apply(&source.name, settings.process);
        process::set_profiling(&source.devices);
        let first = source.devices.first().copied().unwrap_or(Device::Cpu);
        // Dropped after the weights, also by a load that fails.
        let trim = TrimWhenDropped;
        let weights = Weights::load(source, &settings)?;
        let runner = runner(&settings, weights.on(first)?, first)?;
        warn_in_training(source, &runner);
        let plan = plan(source, &runner)?;
        if settings.method == FORWARD
            && let Some(module) = optimize::faster_module(source, &runner, &plan.signature)
        {
            weights.replace(first, module);
        }
        Ok(Arc::new(TorchModel {
            plan: Arc::new(plan),
            weights,
            settings,
            _trim: trim,
        }))
    }
}

/// A loaded TorchScript file.
#[derive(Debug)]
struct TorchModel {
    plan: Arc<Plan>,
    weights: Weights,
    settings: Settings,
    _trim: TrimWhenDropped,
}

impl Drop for TorchModel {
    fn drop(&mut self) {
        startup::return_what_is_freed();
    }
}

impl Model for TorchModel {
    fn signature(&self) -> &Signature {
        &self.plan.signature
    }

    /// What is only a guess cannot be warmed up.
    fn warm_up(&self) -> WarmUp {
        match self.plan.signature.leeway {
            Leeway::Everything => WarmUp::Needless,
            Leeway::None | Leeway::LeadingDims | Leeway::AnyRank => WarmUp::Helps,
        }
    }

    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError> {
        Ok(Box::new(TorchInstance {
            plan: Arc::clone(&self.plan),
            runner: runner(&self.settings, self.weights.for_instance(device)?, device)?,
            peak_memory: PeakMemory::default(),
            _trim: TrimWhenDropped,
        }))
    }
}

/// It is run as it was saved, as PyTorch runs it; few mean that.
fn warn_in_training(source: &ModelSource, runner: &Runner) {
    if runner.module.is_in_training() {
        tracing::warn!(
            model = source.name,
            instead = "call model.eval() before the model is scripted and saved",
            "the model was saved in training mode, in which dropout is by chance and normalisation goes by the batch"
        );
    }
}

fn runner(settings: &Settings, loaded: LoadedModule, device: Device) -> Result<Runner, LoadError> {
    let placement = match device {
        Device::Cpu => Placement::Processor,
        Device::Cuda(index) => Placement::Cuda(Gpu {
            streams: CudaStreams::new(index).map_err(|fault| fault.of_load("CUDA streams"))?,
            cap: loaded.cap,
            cache: settings.cache,
        }),
    };
    Ok(Runner {
        module: loaded.module,
        placement,
        options: settings.run,
        intra_op_threads: settings.intra_op_threads,
    })
}

/// Takes the signature from the configuration if it is complete, otherwise infers the rest.
fn plan(source: &ModelSource, runner: &Runner) -> Result<Plan, LoadError> {
    let (module, name) = (&runner.module, &source.name);
    if let Returned::Unservable(reason) = module.returned() {
        return Err(LoadError::Config(format!(
            "unable to load model '{name}': {reason}"
        )));
    }
    let signature = match source.max_batch_size {
        Some(max_batch_size) if !source.inputs.is_empty() && !source.outputs.is_empty() => {
            if max_batch_size > 0 {
                independence::warn_if_mixed(source, runner, &source.inputs, max_batch_size);
            }
            Signature {
                inputs: source.inputs.clone(),
                outputs: source.outputs.clone(),
                max_batch_size,
                leeway: Leeway::None,
            }
        }
        Some(_) | None => infer::signature(source, runner)?,
    };
    let rest = match source.outputs.as_slice() {
        [] => Rest::Unexpected,
        [_, ..] => Rest::Dropped,
    };
    Ok(Plan {
        binding: binding::inputs(name, module.arguments(), &signature.inputs)?,
        outputs: outputs::bind(name, module.returned(), &signature.outputs, rest)?,
        signature,
    })
}

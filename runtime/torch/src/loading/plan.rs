//! Builds the runner of a loaded module, and the plan of its instances.

use weir_runtime::backend::{Device, LoadError, ModelSource, ShapeTolerance, Signature};

use crate::execution::binding;
use crate::execution::cuda_streams::CudaStreams;
use crate::execution::instance::Plan;
use crate::execution::outputs::{self, ExtraOutputs};
use crate::execution::runner::{Gpu, Placement, Runner};
use crate::loading::infer::{self, Inferred, exported, onnx};
use crate::loading::weights::LoadedModule;
use crate::module::Returned;
use crate::settings::Settings;

/// Makes the runner of a module on its device.
pub(crate) fn runner(settings: &Settings, loaded: LoadedModule, device: Device) -> Result<Runner, LoadError> {
    let placement = match device {
        Device::Cpu => Placement::Processor,
        Device::Cuda(index) => Placement::Cuda(Gpu {
            streams: CudaStreams::new(index).map_err(|fault| fault.of_load("CUDA streams"))?,
            cap: loaded.cap,
            cache: settings.cache,
        }),
    };
    Ok(Runner { module: loaded.module, placement, options: settings.run, intra_op_threads: settings.intra_op_threads })
}

/// Returns the configured signature if it is complete, otherwise infers the missing parts.
///
/// # Errors
/// [`LoadError`] if the signature cannot be inferred, or if the model returns a value that no output can hold.
pub(crate) fn signature(source: &ModelSource, runner: &Runner, doubt: Option<&str>) -> Result<Inferred, LoadError> {
    if let Returned::Unservable(reason) = runner.module.returned() {
        return Err(LoadError::Config(format!("unable to load model '{}': {reason}", source.name)));
    }
    if let Some(program) = runner.module.program() {
        return exported::signature(source, runner, program, doubt);
    }
    if let Some(session) = runner.module.session() {
        return onnx::signature(source, runner, session, doubt);
    }
    match source.max_batch_size.or(runner.module.is_compiled().then_some(0)) {
        Some(max_batch_size) if !source.inputs.is_empty() && !source.outputs.is_empty() => {
            Ok(Inferred::of(Signature {
                inputs: source.inputs.clone(),
                outputs: source.outputs.clone(),
                max_batch_size,
                tolerance: ShapeTolerance::None,
            }))
        }
        Some(_) | None => infer::signature(source, runner, doubt),
    }
}

/// Binds the signature's inputs to the module's arguments, and its outputs to the module's.
pub(crate) fn bind(source: &ModelSource, runner: &Runner, signature: Signature) -> Result<Plan, LoadError> {
    let (module, name) = (&runner.module, &source.name);
    let extra = match source.outputs.as_slice() {
        [] => ExtraOutputs::Unexpected,
        [_, ..] => ExtraOutputs::Dropped,
    };
    Ok(Plan {
        binding: binding::inputs(name, module.arguments(), &signature.inputs)?,
        outputs: match module.session() {
            Some(session) => onnx::bind_outputs(session, &signature.outputs),
            None => outputs::bind(name, module.returned(), &signature.outputs, extra)?,
        },
        signature,
    })
}

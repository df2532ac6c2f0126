//! The libtorch backend and its models.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use weir_runtime::backend::{Backend, Device, Instance, LoadError, Model, ModelSource, Signature};

use crate::cuda_streams::CudaStreams;
use crate::file;
use crate::instance::{Plan, TorchInstance};
use crate::memory::Cap;
use crate::module::Module;
use crate::peak_memory::PeakMemory;
use crate::process;
use crate::runner::{Gpu, Placement, Runner};
use crate::settings::Settings;
use crate::{binding, infer, optimize};

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
        process::apply(&source.name, settings.process);
        process::set_profiling(&source.devices);
        let first = source.devices.first().copied().unwrap_or(Device::Cpu);
        let weights = Weights {
            path: source.path.clone(),
            devices: source.devices.clone(),
            memory_limit: settings.memory_limit,
            by_device: Mutex::default(),
        };
        for &device in source.devices.iter().chain([&first]) {
            weights.on(device)?;
        }
        let runner = runner(&settings, weights.on(first)?, first)?;
        let plan = plan(source, &runner)?;
        if let Some(module) = optimize::faster_module(source, &runner, &plan.signature) {
            weights.replace(first, module);
        }
        Ok(Arc::new(TorchModel {
            plan: Arc::new(plan),
            weights,
            settings,
        }))
    }
}

/// A loaded TorchScript file.
#[derive(Debug)]
struct TorchModel {
    plan: Arc<Plan>,
    weights: Weights,
    settings: Settings,
}

/// Weights by device, shared by the instances on it.
#[derive(Debug)]
struct Weights {
    path: PathBuf,
    /// Device of each future instance.
    devices: Vec<Device>,
    memory_limit: Option<NonZeroU64>,
    by_device: Mutex<HashMap<Device, LoadedModule>>,
}

/// A module on one device.
#[derive(Clone, Debug)]
struct LoadedModule {
    module: Arc<Module>,
    cap: Option<Arc<Cap>>,
}

impl Model for TorchModel {
    fn signature(&self) -> &Signature {
        &self.plan.signature
    }

    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError> {
        Ok(Box::new(TorchInstance {
            plan: Arc::clone(&self.plan),
            runner: runner(&self.settings, self.weights.on(device)?, device)?,
            peak_memory: PeakMemory::default(),
        }))
    }
}

impl Weights {
    /// Returns the weights on a device; the first call loads them.
    fn on(&self, device: Device) -> Result<LoadedModule, LoadError> {
        let mut by_device = self
            .by_device
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match by_device.entry(device) {
            Entry::Occupied(entry) => Ok(entry.get().clone()),
            Entry::Vacant(entry) => Ok(entry.insert(self.load(device)?).clone()),
        }
    }

    /// Replaces the module of later instances on a device.
    fn replace(&self, device: Device, module: Arc<Module>) {
        let mut by_device = self
            .by_device
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(loaded) = by_device.get_mut(&device) {
            loaded.module = module;
        }
    }

    fn load(&self, device: Device) -> Result<LoadedModule, LoadError> {
        let what = format!("model file '{}'", self.path.display());
        let module = Module::load(&self.path, device).map_err(|fault| fault.of_load(&what))?;
        let cap = match (device, self.memory_limit) {
            (Device::Cpu, _) | (Device::Cuda(_), None) => None,
            (Device::Cuda(_), Some(limit)) => {
                let instances = self.devices.iter().filter(|on| **on == device).count();
                let cap = Cap::new(limit, module.device_bytes(), instances);
                let cap = cap.map_err(|reason| LoadError::Device(format!("{what}: {reason}")))?;
                Some(Arc::new(cap))
            }
        };
        Ok(LoadedModule {
            module: Arc::new(module),
            cap,
        })
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
    let signature = match source.max_batch_size {
        Some(max_batch_size) if !source.inputs.is_empty() && !source.outputs.is_empty() => {
            Signature {
                inputs: source.inputs.clone(),
                outputs: source.outputs.clone(),
                max_batch_size,
            }
        }
        Some(_) | None => infer::signature(source, runner)?,
    };
    Ok(Plan {
        binding: binding::inputs(&source.name, runner.module.arguments(), &signature.inputs)?,
        outputs: binding::outputs(&signature.outputs),
        signature,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn instances_on_a_device_share_one_copy_of_the_weights() {
        let weights = Weights {
            path: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/mlp.pt"),
            devices: vec![Device::Cpu; 2],
            memory_limit: NonZeroU64::new(1),
            by_device: Mutex::default(),
        };
        let [first, second] = [(); 2].map(|()| weights.on(Device::Cpu).unwrap());
        assert!(Arc::ptr_eq(&first.module, &second.module));
        assert!(
            first.cap.is_none(),
            "GPU_MEM_LIMIT does not apply to the processor"
        );
    }
}

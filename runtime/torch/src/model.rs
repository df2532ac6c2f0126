//! The backend and its models.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use weir_runtime::backend::{Backend, Device, Instance, LoadError, Model, ModelSource, Signature};

use crate::file;
use crate::instance::{Plan, TorchInstance};
use crate::module::Module;
use crate::process;
use crate::runner::Runner;
use crate::settings::Settings;
use crate::{binding, infer};

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
        let device = source.devices.first().copied().unwrap_or(Device::Cpu);
        let mut modules = HashMap::new();
        for &device in source.devices.iter().chain([&device]) {
            if let Entry::Vacant(place) = modules.entry(device) {
                place.insert(load_module(&source.path, device)?);
            }
        }
        let first = runner(&settings, Arc::clone(&modules[&device]), device);
        Ok(Arc::new(TorchModel {
            plan: Arc::new(plan(source, &first)?),
            modules: Mutex::new(modules),
            path: source.path.clone(),
            settings,
        }))
    }
}

/// A loaded TorchScript file.
#[derive(Debug)]
struct TorchModel {
    plan: Arc<Plan>,
    /// Weights by device, shared by the instances there.
    modules: Mutex<HashMap<Device, Arc<Module>>>,
    path: PathBuf,
    settings: Settings,
}

impl Model for TorchModel {
    fn signature(&self) -> &Signature {
        &self.plan.signature
    }

    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        let module = match modules.entry(device) {
            Entry::Occupied(place) => place.into_mut(),
            Entry::Vacant(place) => place.insert(load_module(&self.path, device)?),
        };
        Ok(Box::new(TorchInstance {
            plan: Arc::clone(&self.plan),
            runner: runner(&self.settings, Arc::clone(module), device),
        }))
    }
}

fn load_module(path: &std::path::Path, device: Device) -> Result<Arc<Module>, LoadError> {
    Module::load(path, device)
        .map(Arc::new)
        .map_err(|fault| fault.of_load(&format!("model file '{}'", path.display())))
}

fn runner(settings: &Settings, module: Arc<Module>, device: Device) -> Runner {
    Runner {
        module,
        device,
        options: settings.run,
        intra_op_threads: settings.intra_op_threads,
    }
}

/// Takes the configuration's word where it says all, else finds the rest out.
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

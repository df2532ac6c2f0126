//! The modules of a model: one per device, shared by all instances there, or one per instance.
//!
//! A module that writes to itself when it runs cannot be shared: two threads that assign the same attribute crash, and
//! one client's state would appear in another client's answer. Each instance then loads the file for itself.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use weir_protocol::Batching;
use weir_runtime::backend::{Device, LoadError, ModelCode, ModelSource};
use weir_runtime::model_file::{self, ModelFormat};

use crate::loading::unguarded;
use crate::memory::Cap;
use crate::module::{CompiledRuns, Module, SelfWrites};
use crate::settings::{Settings, WeightSharing};

/// The loaded modules of a model that no instance owns alone.
#[derive(Debug)]
pub(crate) struct Weights {
    path: PathBuf,
    code: ModelCode,
    /// The method that requests run.
    method: String,
    /// Runs of compiled code.
    runs: CompiledRuns,
    /// Threads per operator, which belong to the session of an ONNX model.
    intra_op_threads: i32,
    /// Identity of the file when it was first loaded.
    stamp: FileStamp,
    sharing: Sharing,
    /// Bytes of all copies on all devices; `None` if they are unknown.
    bytes: Option<u64>,
    by_device: Mutex<HashMap<Device, OnDevice>>,
}

/// A module on one device, with the memory limit of its runs there.
#[derive(Clone, Debug)]
pub(crate) struct LoadedModule {
    pub(crate) module: Arc<Module>,
    pub(crate) cap: Option<Cap>,
}

#[derive(Debug)]
struct OnDevice {
    /// The module; `None` once an instance owns it alone.
    module: Option<Arc<Module>>,
    form: Form,
    cap: Option<Cap>,
}

/// The form of a device's modules, which is the same for all instances there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    AsSaved,
    /// Optimised for inference, as by [`Module::load_optimized`].
    Optimised,
}

/// The use of a module by one or several instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// All instances on the device use one module.
    Device,
    /// Each instance has a module of its own.
    Instance,
}

impl Sharing {
    /// Shares the weights, unless the configuration declines or the module writes to itself.
    fn of(writes: &SelfWrites, configured: WeightSharing) -> Self {
        match (writes.reason(), configured) {
            (Some(_), _) | (None, WeightSharing::Declined) => Self::Instance,
            (None, WeightSharing::Unset | WeightSharing::Asked) => Self::Device,
        }
    }

    /// Returns the number of modules for a number of instances on one device.
    fn modules(self, instances: usize) -> usize {
        match self {
            Self::Device => 1,
            Self::Instance => instances.max(1),
        }
    }
}

impl Weights {
    /// Loads the model on each of its devices, or on the CPU if it has none.
    pub(crate) fn load(source: &ModelSource, settings: &Settings) -> Result<Self, LoadError> {
        let unreadable =
            |error| LoadError::File(format!("model file '{}' cannot be read: {error}", source.path.display()));
        let mut weights = Self {
            path: source.path.clone(),
            code: source.code,
            method: settings.method.clone(),
            runs: runs(source),
            intra_op_threads: settings.intra_op_threads,
            stamp: FileStamp::of(&source.path).map_err(unreadable)?,
            sharing: Sharing::Device,
            bytes: Some(0),
            by_device: Mutex::default(),
        };
        let mut by_device = HashMap::new();
        for (device, instances) in instances_by_device(&source.devices) {
            let module = weights.module(device)?;
            unguarded::check(source, &module)?;
            weights.sharing = Sharing::of(module.self_writes(), settings.weight_sharing);
            let copies = weights.sharing.modules(instances) as u64;
            let taken = module.device_bytes().saturating_mul(copies);
            let bytes = module.bytes().ok().map(|bytes| bytes.saturating_mul(copies));
            weights.bytes = weights.bytes.zip(bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
            let cap = weights.cap(device, settings.memory_limit, taken, instances)?;
            let on = OnDevice { module: Some(Arc::new(module)), form: Form::AsSaved, cap };
            by_device.insert(device, on);
        }
        weights.announce(source, settings, &by_device);
        weights.by_device = Mutex::new(by_device);
        Ok(weights)
    }

    /// Returns the bytes of the weights, over all devices and copies; `None` if they are unknown.
    pub(crate) fn bytes(&self) -> Option<u64> {
        self.bytes
    }

    /// Returns the module on a device before instances are created.
    pub(crate) fn on(&self, device: Device) -> Result<LoadedModule, LoadError> {
        let by_device = self.by_device.lock();
        let found =
            by_device.get(&device).and_then(|on| Some(LoadedModule { module: on.module.clone()?, cap: on.cap }));
        found.ok_or_else(|| LoadError::Device(format!("the model is not on device {device:?}")))
    }

    /// Returns the module for a new instance: the device's shared module, or one that no other instance has.
    pub(crate) fn for_instance(&self, device: Device) -> Result<LoadedModule, LoadError> {
        let mut by_device = self.by_device.lock();
        let Some(on) = by_device.get_mut(&device) else {
            return Err(LoadError::Device(format!("the model is not on device {device:?}")));
        };
        let module = match self.sharing {
            Sharing::Device => on.module.clone(),
            Sharing::Instance => on.module.take(),
        };
        let (form, cap) = (on.form, on.cap);
        drop(by_device);
        let module = module.map_or_else(|| self.again(device, form), Ok)?;
        Ok(LoadedModule { module, cap })
    }

    /// Gives every later instance on a device a module optimised for inference.
    pub(crate) fn optimise(&self, device: Device) -> Result<(), LoadError> {
        let module = self.optimised(&self.on(device)?.module)?;
        if let Some(on) = self.by_device.lock().get_mut(&device) {
            (on.module, on.form) = (Some(Arc::new(module)), Form::Optimised);
        }
        Ok(())
    }

    fn optimised(&self, saved: &Module) -> Result<Module, LoadError> {
        saved.load_optimized(&self.path).map_err(|fault| fault.of_load("the optimised module"))
    }

    /// Loads the file again. Refuses a file that has changed since the first load, because instances must not differ.
    fn again(&self, device: Device, form: Form) -> Result<Arc<Module>, LoadError> {
        let saved = self.module(device)?;
        let module = match form {
            Form::AsSaved => saved,
            Form::Optimised => self.optimised(&saved)?,
        };
        if FileStamp::of(&self.path).ok() != Some(self.stamp) {
            return Err(LoadError::File(format!(
                "model file '{}' changed while its instances were loaded: load the model again",
                self.path.display()
            )));
        }
        Ok(Arc::new(module))
    }

    fn module(&self, device: Device) -> Result<Module, LoadError> {
        let loaded = match (model_file::format(&self.path), self.code) {
            (Ok(ModelFormat::Onnx), _) => Module::load_onnx(&self.path, self.intra_op_threads),
            (Ok(ModelFormat::Compiled), ModelCode::Allow) => Module::load_compiled(&self.path, device, self.runs),
            (Ok(ModelFormat::TorchScript | ModelFormat::Exported) | Err(_), ModelCode::Allow) => {
                Module::load(&self.path, device, &self.method)
            }
            (
                Ok(ModelFormat::TorchScript | ModelFormat::Exported | ModelFormat::Compiled) | Err(_),
                ModelCode::Forbid,
            ) => Module::load_exported(&self.path, device, &self.method),
        };
        loaded.map_err(|fault| fault.of_load(&self.what()))
    }

    fn what(&self) -> String {
        format!("model file '{}'", self.path.display())
    }

    /// Returns the memory limit of runs on a device, where the weights of all instances take `taken` bytes.
    fn cap(
        &self,
        device: Device,
        limit: Option<NonZeroU64>,
        taken: u64,
        instances: usize,
    ) -> Result<Option<Cap>, LoadError> {
        match (device, limit) {
            (Device::Cpu, _) | (Device::Cuda(_), None) => Ok(None),
            (Device::Cuda(_), Some(limit)) => Cap::new(limit, taken, instances)
                .map(Some)
                .map_err(|reason| LoadError::Device(format!("{}: {reason}", self.what()))),
        }
    }

    /// Logs the reason and the memory cost if each instance has its own copy of the weights.
    fn announce(&self, source: &ModelSource, settings: &Settings, by_device: &HashMap<Device, OnDevice>) {
        let Some(module) = by_device.values().find_map(|on| on.module.as_ref()) else {
            return;
        };
        if self.sharing == Sharing::Device {
            return;
        }
        let instances = source.devices.len().max(1);
        let bytes = module.bytes().unwrap_or(0);
        let copies = instances.saturating_sub(by_device.len()) as u64;
        let extra_bytes = bytes.saturating_mul(copies);
        let model = &source.name;
        match (module.self_writes().reason(), settings.weight_sharing) {
            (None, _) => tracing::info!(
                model,
                instances,
                bytes,
                extra_bytes,
                "ENABLE_WEIGHT_SHARING is false: each instance has a copy of the weights of its own"
            ),
            (Some(reason), WeightSharing::Asked) if copies > 0 => tracing::warn!(
                model,
                instances,
                bytes,
                extra_bytes,
                reason,
                "ENABLE_WEIGHT_SHARING is not followed: the model may change itself when it runs, and instances \
                 that share it would crash or mix their clients' answers; each has a copy of its own"
            ),
            (Some(reason), _) => tracing::info!(
                model,
                instances,
                bytes,
                extra_bytes,
                reason,
                "the model may change itself when it runs: each instance has a copy of its own"
            ),
        }
    }
}

/// Returns the runs of compiled code that the instances make.
fn runs(source: &ModelSource) -> CompiledRuns {
    let batching = match source.max_batch_size.unwrap_or(0) {
        0 => Batching::None,
        _ => Batching::FirstDimension,
    };
    CompiledRuns { at_once: source.devices.len().max(1), batching }
}

/// Returns the devices of a model's instances, with the number of instances on each; the CPU with 0 if there are none.
fn instances_by_device(devices: &[Device]) -> Vec<(Device, usize)> {
    let mut counted: Vec<(Device, usize)> = Vec::new();
    for &device in devices {
        match counted.iter_mut().find(|(on, _)| *on == device) {
            Some((_, count)) => *count += 1,
            None => counted.push((device, 1)),
        }
    }
    if counted.is_empty() {
        counted.push((Device::Cpu, 0));
    }
    counted
}

/// The identity of a file and of its contents, as far as its metadata shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    inode: (u64, u64),
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileStamp {
    /// Reads the stamp of the file at `path`.
    fn of(path: &Path) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(path)?;
        Ok(Self {
            inode: (metadata.dev(), metadata.ino()),
            bytes: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};
    use std::path::Path;

    use super::*;

    fn weights(name: &str, sharing: Option<&str>) -> Weights {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.pt"));
        loaded(path, sharing)
    }

    fn loaded(path: PathBuf, sharing: Option<&str>) -> Weights {
        let sharing = sharing.map(|value| ("ENABLE_WEIGHT_SHARING".to_owned(), value.to_owned()));
        let parameters = BTreeMap::from_iter(sharing);
        let source = ModelSource { parameters, devices: vec![Device::Cpu; 3], ..ModelSource::bare("m", path) };
        let settings = Settings::parse(&source.parameters).unwrap();
        Weights::load(&source, &settings).unwrap()
    }

    /// Returns the number of different modules that three instances have.
    fn modules(weights: &Weights) -> usize {
        let instances = [(); 3].map(|()| weights.for_instance(Device::Cpu).unwrap().module);
        different(&instances)
    }

    fn different(modules: &[Arc<Module>]) -> usize {
        modules.iter().map(Arc::as_ptr).collect::<HashSet<_>>().len()
    }

    #[test]
    fn instances_share_their_weights_unless_they_write_to_them_or_the_configuration_declines() {
        for (name, sharing, expected) in [
            ("mlp", None, 1),
            ("mlp", Some("true"), 1),
            ("mlp", Some("false"), 3),
            ("recurrent", None, 3),
            ("recurrent", Some("true"), 3),
            ("recurrent", Some("false"), 3),
        ] {
            assert_eq!(modules(&weights(name, sharing)), expected, "{name} {sharing:?}");
        }
    }

    #[test]
    fn every_instance_has_the_optimised_module_also_if_each_has_its_own() {
        for (sharing, expected) in [(None, 1), (Some("false"), 3)] {
            let weights = weights("conv_traced", sharing);
            let saved = weights.on(Device::Cpu).unwrap().module.operators();
            weights.optimise(Device::Cpu).unwrap();
            let instances = [(); 3].map(|()| weights.for_instance(Device::Cpu).unwrap().module);
            assert!(instances.iter().all(|module| module.operators() != saved), "{sharing:?}");
            assert_eq!(different(&instances), expected, "{sharing:?}");
        }
    }

    #[test]
    fn gpu_mem_limit_does_not_apply_to_the_processor() {
        let weights = weights("mlp", None);
        let limit = NonZeroU64::new(1);
        assert!(weights.cap(Device::Cpu, limit, 100, 1).unwrap().is_none());
        assert!(weights.cap(Device::Cuda(0), limit, 100, 1).is_err());
    }

    #[test]
    fn a_file_that_is_replaced_between_two_instances_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pt");
        let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
        std::fs::copy(models.join("recurrent.pt"), &path).unwrap();
        let weights = loaded(path.clone(), None);
        weights.for_instance(Device::Cpu).unwrap();
        weights.for_instance(Device::Cpu).unwrap();
        let next = folder.path().join("next");
        std::fs::copy(models.join("counter.pt"), &next).unwrap();
        std::fs::rename(next, &path).unwrap();
        let error = weights.for_instance(Device::Cpu).unwrap_err().to_string();
        assert!(error.contains("changed while"), "{error}");
    }
}

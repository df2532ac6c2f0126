//! The modules of a model: one on each device for all its instances there, or one for each instance.
//!
//! A module that writes to itself when it runs cannot be shared: two threads that assign one attribute crash, and
//! one client's state would answer another. Its instances each load the file.

use std::collections::HashMap;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_runtime::backend::{Device, LoadError, ModelSource};

use crate::memory::Cap;
use crate::module::{Module, SelfWrites};
use crate::settings::{Settings, WeightSharing};
use crate::stamp::FileStamp;

/// The modules of a model that are loaded but not yet an instance's own.
#[derive(Debug)]
pub(crate) struct Weights {
    path: PathBuf,
    /// Method that requests run.
    method: String,
    /// The file that was loaded first.
    stamp: FileStamp,
    sharing: Sharing,
    by_device: Mutex<HashMap<Device, OnDevice>>,
}

/// A module on one device, and the memory that its runs may take there.
#[derive(Clone, Debug)]
pub(crate) struct LoadedModule {
    pub(crate) module: Arc<Module>,
    pub(crate) cap: Option<Arc<Cap>>,
}

#[derive(Debug)]
struct OnDevice {
    /// Absent once an instance has it for itself.
    module: Option<Arc<Module>>,
    cap: Option<Arc<Cap>>,
}

/// The owner of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sharing {
    /// All instances on its device have it.
    Device,
    /// One instance has it for itself.
    Instance,
}

impl Sharing {
    /// Shares unless the configuration declines, or a run of one instance would change those of another.
    fn of(writes: &SelfWrites, configured: WeightSharing) -> Self {
        match (writes.reason(), configured) {
            (Some(_), _) | (None, WeightSharing::Declined) => Self::Instance,
            (None, WeightSharing::Unset | WeightSharing::Asked) => Self::Device,
        }
    }

    /// Number of modules for a number of instances on one device.
    fn modules(self, instances: usize) -> usize {
        match self {
            Self::Device => 1,
            Self::Instance => instances.max(1),
        }
    }
}

impl Weights {
    /// Loads the model on each of its devices, or on the processor if it has none.
    pub(crate) fn load(source: &ModelSource, settings: &Settings) -> Result<Self, LoadError> {
        let unreadable =
            |error| LoadError::File(format!("model file '{}' cannot be read: {error}", source.path.display()));
        let mut weights = Self {
            path: source.path.clone(),
            method: settings.method.clone(),
            stamp: FileStamp::of(&source.path).map_err(unreadable)?,
            sharing: Sharing::Device,
            by_device: Mutex::default(),
        };
        let mut by_device = HashMap::new();
        for (device, instances) in instances_by_device(&source.devices) {
            let module = weights.module(device)?;
            weights.sharing = Sharing::of(module.self_writes(), settings.weight_sharing);
            let copies = weights.sharing.modules(instances) as u64;
            let taken = module.device_bytes().saturating_mul(copies);
            let cap = weights.cap(device, settings.memory_limit, taken, instances)?;
            let on = OnDevice { module: Some(Arc::new(module)), cap };
            by_device.insert(device, on);
        }
        weights.announce(source, settings, &by_device);
        weights.by_device = Mutex::new(by_device);
        Ok(weights)
    }

    /// Returns the module on a device for trials, before any instance has it.
    pub(crate) fn on(&self, device: Device) -> Result<LoadedModule, LoadError> {
        let by_device = self.lock();
        let found = by_device
            .get(&device)
            .and_then(|on| Some(LoadedModule { module: on.module.clone()?, cap: on.cap.clone() }));
        found.ok_or_else(|| LoadError::Device(format!("the model is not on device {device:?}")))
    }

    /// Returns the module of a new instance: that of the device, or one that no other instance has.
    pub(crate) fn for_instance(&self, device: Device) -> Result<LoadedModule, LoadError> {
        let mut by_device = self.lock();
        let Some(on) = by_device.get_mut(&device) else {
            return Err(LoadError::Device(format!("the model is not on device {device:?}")));
        };
        let module = match self.sharing {
            Sharing::Device => on.module.clone(),
            Sharing::Instance => on.module.take(),
        };
        let cap = on.cap.clone();
        drop(by_device);
        let module = module.map_or_else(|| self.again(device), Ok)?;
        Ok(LoadedModule { module, cap })
    }

    /// Replaces the module of later instances on a device.
    pub(crate) fn replace(&self, device: Device, module: Arc<Module>) {
        if let Some(on) = self.lock().get_mut(&device) {
            on.module = Some(module);
        }
    }

    /// Loads the file again, if it still is the file that was loaded first: instances must not differ.
    fn again(&self, device: Device) -> Result<Arc<Module>, LoadError> {
        let module = self.module(device)?;
        if FileStamp::of(&self.path).ok() != Some(self.stamp) {
            return Err(LoadError::File(format!(
                "model file '{}' changed while its instances were loaded: load the model again",
                self.path.display()
            )));
        }
        Ok(Arc::new(module))
    }

    fn module(&self, device: Device) -> Result<Module, LoadError> {
        Module::load(&self.path, device, &self.method).map_err(|fault| fault.of_load(&self.what()))
    }

    fn what(&self) -> String {
        format!("model file '{}'", self.path.display())
    }

    /// The limit of each run, if there are `taken` bytes of weights for all instances on the device.
    fn cap(
        &self,
        device: Device,
        limit: Option<NonZeroU64>,
        taken: u64,
        instances: usize,
    ) -> Result<Option<Arc<Cap>>, LoadError> {
        match (device, limit) {
            (Device::Cpu, _) | (Device::Cuda(_), None) => Ok(None),
            (Device::Cuda(_), Some(limit)) => Cap::new(limit, taken, instances)
                .map(|cap| Some(Arc::new(cap)))
                .map_err(|reason| LoadError::Device(format!("{}: {reason}", self.what()))),
        }
    }

    /// Logs who has a copy of the weights, why, and the cost, where that is not one for all.
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

    fn lock(&self) -> MutexGuard<'_, HashMap<Device, OnDevice>> {
        self.by_device.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the devices of a model's instances, with the number on each; the processor if there are none.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;

    fn weights(name: &str, sharing: Option<&str>) -> Weights {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/models/{name}.pt"));
        loaded(path, sharing)
    }

    fn loaded(path: PathBuf, sharing: Option<&str>) -> Weights {
        let sharing = sharing.map(|value| ("ENABLE_WEIGHT_SHARING".to_owned(), value.to_owned()));
        let source = ModelSource {
            example: None,
            buckets: Vec::new(),
            warm_up_failures: weir_runtime::backend::WarmUpFailures::Refuse,
            name: "m".to_owned(),
            version: 1,
            path,
            inputs: Vec::new(),
            outputs: Vec::new(),
            max_batch_size: None,
            parameters: BTreeMap::from_iter(sharing),
            op_libraries: Vec::new(),
            devices: vec![Device::Cpu; 3],
        };
        let settings = Settings::parse(&source.parameters).unwrap();
        Weights::load(&source, &settings).unwrap()
    }

    /// Number of different modules that three instances have.
    fn modules(weights: &Weights) -> usize {
        let instances = [(); 3].map(|()| weights.for_instance(Device::Cpu).unwrap());
        let mut modules = instances.each_ref().map(|one| Arc::as_ptr(&one.module)).to_vec();
        modules.sort_unstable();
        modules.dedup();
        modules.len()
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

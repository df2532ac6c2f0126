//! Turns a configured model version into a running engine: backend, weights, signature, policy and warm-up.

mod batch_monitor;
mod capacity;
mod example;
mod policy;
mod samples;

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::task::task_tracker::TaskTrackerToken;
use weir_protocol::Tensor;
use weir_protocol::grpc::proto;

use crate::backend::{
    Backend, Device, LoadError, Model, ModelCode, ModelSource, UnguardedOperators, WarmUp, WarmUpFailures, WarmUpSample,
};
use crate::engine::{BatchLimit, Engine, EngineSpec, ModelMemory, Sample, WarmUpPlan};
use crate::in_use::{InUseCount, Retired};
use crate::model::config::{MAX_WARMUP_BYTES, ModelConfig, Warmup};
use crate::model::interface::Interface;
use crate::model_file::{self, torchserve};
use crate::repository::{Launch, VersionSource};
pub(crate) use batch_monitor::BatchMonitor;
use capacity::{Capacity, CapacityShare};
pub use samples::sample_batch;

/// Launches model versions on the available backends.
pub(crate) struct Launcher {
    backends: Vec<Arc<dyn Backend>>,
    options: LaunchOptions,
    capacity: Capacity,
    batch_monitor: BatchMonitor,
}

/// Options that apply to every model.
#[derive(Clone, Debug)]
pub(crate) struct LaunchOptions {
    /// Indices of the GPUs that models may use; empty means the CPU.
    pub gpus: Vec<usize>,
    /// Limit on the queue of each model version, in requests.
    pub max_queued: usize,
    /// Time for measuring batch sizes before readiness, per instance.
    pub warm_up: Duration,
    /// Limit on the run time of a batch.
    pub batch_limit: BatchLimit,
    /// Handling of a configuration that contradicts the model.
    pub warm_up_failures: WarmUpFailures,
    /// Operators that models may call although their operands are not checked.
    pub unguarded_operators: UnguardedOperators,
    /// Permission to load models that contain code.
    pub model_code: ModelCode,
    /// Example file of the only model (`--example`).
    pub example: Option<PathBuf>,
}

/// A loaded version with its engine.
pub(crate) struct LoadedModel {
    pub engine: Arc<Engine>,
    pub config: Arc<ModelConfig>,
    /// Duration of loading and warm-up.
    pub load: Duration,
    /// The reason why the version is served with less than its configuration allows; `None` if it is served in full.
    limitation: Option<String>,
    in_use: InUseCount,
    _share: CapacityShare,
    /// The model of a TorchServe archive, which instances may load again.
    _unpacked: Option<torchserve::Unpacked>,
}

/// A version in use: it accepts the holder's requests even after it is replaced, until this value is dropped.
pub(crate) struct InUse {
    loaded: Arc<LoadedModel>,
    _token: TaskTrackerToken,
}

impl Launcher {
    /// Creates a launcher that searches `backends` in order.
    pub(crate) fn new(backends: Vec<Arc<dyn Backend>>, options: LaunchOptions) -> Self {
        Self { backends, batch_monitor: BatchMonitor::new(options.batch_limit), options, capacity: Capacity::default() }
    }

    /// The running batches of all loaded versions.
    pub(crate) fn batch_monitor(&self) -> &BatchMonitor {
        &self.batch_monitor
    }

    /// Number of requests that all loaded versions together run at once.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity.requests()
    }

    fn backend(&self, name: &str) -> Result<&Arc<dyn Backend>, LoadError> {
        let found = self.backends.iter().find(|backend| backend.names().contains(&name));
        found.ok_or_else(|| {
            let known: Vec<&str> = self.backends.iter().flat_map(|b| b.names().first().copied()).collect();
            LoadError::Config(format!("unknown backend '{name}': this server has {}", known.join(", ")))
        })
    }

    fn start(&self, source: &VersionSource, config: ModelConfig) -> Result<LoadedModel, LoadError> {
        let started = now();
        let devices: Vec<Device> = config.instance_groups.iter().flat_map(|group| group.devices()).collect();
        let example = example::read(source, self.options.example.as_deref())?;
        let samples = samples::read(&config.warmups, &source.model_dir, MAX_WARMUP_BYTES)?;
        let unpacked = unpack(source)?;
        let path = unpacked.as_ref().map_or(&source.path, |unpacked| &unpacked.path).clone();
        let model_source = ModelSource { samples, path, ..self.model_source(source, &config, &devices, example) };
        let backend = self.backend(&config.backend)?;
        check_code(backend.as_ref(), &model_source)?;
        let model = backend.load(&model_source)?;
        let signature = model.signature().clone();
        let config = config.complete(&signature).map_err(refused)?;
        let interface = Interface { model: source.name.clone(), signature, padding: config.padding.clone() };
        let spec = EngineSpec {
            version: source.version,
            policy: policy::of(&config, self.options.max_queued),
            devices,
            labels: labels(&interface, &source.labels),
            warm_up: self.warm_up(&config, &interface, model.as_ref(), &model_source.samples)?,
            interface,
        };
        let engine = Arc::new(Engine::start(spec, &model)?);
        log_memory(source, engine.memory());
        self.batch_monitor.add(engine.watch());
        Ok(LoadedModel {
            _share: self.capacity.share(engine.capacity()),
            limitation: engine.limitation().or(model.limitation()).map(str::to_owned),
            engine,
            config: Arc::new(config),
            load: started.elapsed(),
            in_use: InUseCount::default(),
            _unpacked: unpacked,
        })
    }

    fn warm_up(
        &self,
        config: &ModelConfig,
        interface: &Interface,
        model: &dyn Model,
        samples: &[WarmUpSample],
    ) -> Result<WarmUpPlan, LoadError> {
        let sample = |(warmup, read): (&Warmup, &WarmUpSample)| {
            let job = Arc::new(samples::job(read, interface)?);
            Ok(Sample { name: warmup.name.clone(), count: warmup.count, job })
        };
        let samples = config.warmups.iter().zip(samples).map(sample).collect::<Result<Vec<_>, LoadError>>()?;
        let sizes = if self.options.warm_up.is_zero() { WarmUp::Needless } else { model.warm_up() };
        Ok(WarmUpPlan { samples, sizes, budget: self.options.warm_up })
    }

    fn model_source(
        &self,
        source: &VersionSource,
        config: &ModelConfig,
        devices: &[Device],
        example: Option<Vec<Tensor>>,
    ) -> ModelSource {
        let padding = config.padding.as_ref();
        ModelSource {
            example,
            samples: Vec::new(),
            name: source.name.clone(),
            version: source.version,
            path: source.path.clone(),
            inputs: config.inputs.clone(),
            outputs: config.outputs.clone(),
            max_batch_size: config.max_batch_size,
            parameters: config.parameters.clone(),
            op_libraries: op_libraries(source, config),
            devices: devices.to_vec(),
            buckets: padding.map_or_else(Vec::new, |padding| padding.buckets.clone()),
            // A warm-up sample in the configuration already shows which inputs the model takes.
            warm_up_failures: match config.warmups.as_slice() {
                [] => self.options.warm_up_failures,
                [_, ..] => WarmUpFailures::Allow,
            },
            unguarded_operators: self.options.unguarded_operators.clone(),
            code: self.options.model_code,
        }
    }
}

impl Launch for Launcher {
    type Served = LoadedModel;

    fn launch(&self, source: &VersionSource) -> Result<LoadedModel, LoadError> {
        let config = ModelConfig::clone(&source.config);
        let gpus = if self.backend(&config.backend)?.runs_on_gpus() { self.options.gpus.as_slice() } else { &[] };
        let config = config.place(gpus).map_err(refused)?;
        log_ignored_cache(&config);
        self.start(source, config)
    }

    async fn retire(&self, served: Arc<LoadedModel>) {
        // New requests go to the successor, so requests that wait for others to batch with would only delay the
        // retirement.
        served.engine.flush();
        served.in_use.retire().await;
        served.engine.drain().await;
    }

    fn limitation(served: &LoadedModel) -> Option<&str> {
        served.limitation.as_deref()
    }

    fn close(&self) {
        for backend in &self.backends {
            backend.close();
        }
    }

    fn default_filename(&self, backend: &str) -> Result<Option<&'static str>, LoadError> {
        self.backend(backend).map(|backend| backend.default_filename())
    }
}

impl InUse {
    /// Registers the use of a version by a request.
    ///
    /// # Errors
    /// [`Retired`] if the version is being retired; the repository already has its successor, or none.
    pub(crate) fn take(loaded: Arc<LoadedModel>) -> Result<Self, Retired> {
        let token = loaded.in_use.acquire()?;
        Ok(Self { loaded, _token: token })
    }
}

impl Deref for InUse {
    type Target = LoadedModel;

    fn deref(&self) -> &LoadedModel {
        &self.loaded
    }
}

impl LoadedModel {
    /// The configuration as clients see it.
    pub(crate) fn proto(&self) -> &proto::ModelConfig {
        &self.config.proto
    }

    /// `platform` of the configuration, otherwise the backend.
    pub(crate) fn platform(&self) -> &str {
        let platform = &self.config.proto.platform;
        if platform.is_empty() { &self.config.backend } else { platform }
    }
}

/// Unpacks the model of a TorchServe archive, and logs what its handler would have done; `None` for other files.
fn unpack(source: &VersionSource) -> Result<Option<torchserve::Unpacked>, LoadError> {
    if source.path.is_dir() {
        return Ok(None);
    }
    let unpacked = torchserve::unpack(&source.path).map_err(LoadError::File)?;
    if let Some(reason) = unpacked.as_ref().and_then(|unpacked| unpacked.without.as_deref()) {
        tracing::warn!(model = %source.name, reason, "served the model of a TorchServe archive without its handler");
    }
    Ok(unpacked)
}

/// Refuses a model that contains code if code is forbidden.
fn check_code(backend: &dyn Backend, source: &ModelSource) -> Result<(), LoadError> {
    let reason = match source.code {
        ModelCode::Allow => return Ok(()),
        ModelCode::Forbid if !source.op_libraries.is_empty() => {
            Some("needs libraries with operators, which are code: remove model_operations from config.pbtxt".to_owned())
        }
        ModelCode::Forbid => backend.code_in(source),
    };
    match reason {
        None => Ok(()),
        Some(reason) => Err(LoadError::File(format!(
            "{}. This server loads no code (--model-code=forbid)",
            model_file::sentence(&source.path, &reason)
        ))),
    }
}

/// Logs the memory of a version that is ready, in bytes.
fn log_memory(source: &VersionSource, memory: ModelMemory) {
    let ModelMemory { weights, workspace, inputs, graphs } = memory;
    tracing::info!(
        model = source.name,
        version = source.version,
        weights,
        workspace,
        inputs,
        graphs,
        "memory in bytes: the weights, the most that runs of the largest batch measured allocate at once, the inputs of \
         the batches in flight, and the CUDA graphs"
    );
}

/// Returns the paths of the operator libraries. The configuration has checked that they are inside the model's
/// directory.
fn op_libraries(source: &VersionSource, config: &ModelConfig) -> Vec<PathBuf> {
    let names = config.proto.model_operations.iter().flat_map(|operations| &operations.op_library_filename);
    names.map(|name| source.model_dir.join(name)).collect()
}

/// Logs that `response_cache` has no effect, because users expect that repeated requests do not run the model. Triton,
/// too, serves such a model without a cache if the server has none.
fn log_ignored_cache(config: &ModelConfig) {
    let cache = config.proto.response_cache;
    if cache.is_some_and(|cache| cache.enable) {
        tracing::info!(
            model = %config.name,
            "response_cache accepted without effect: there is no response cache"
        );
    }
}

fn labels(interface: &Interface, named: &BTreeMap<String, Vec<String>>) -> Vec<Vec<String>> {
    interface.signature.outputs.iter().map(|output| named.get(&output.name).cloned().unwrap_or_default()).collect()
}

fn refused(error: crate::model::config::ConfigError) -> LoadError {
    LoadError::Config(error.to_string())
}

#[expect(clippy::disallowed_methods, reason = "the load time of a model is a metric")]
fn now() -> Instant {
    Instant::now()
}

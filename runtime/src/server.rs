//! The server's calls, the same for HTTP and gRPC, which only encode and decode them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use weir_protocol::{Delivery, InferRequest, SharedRange, Tensor, TensorSpec};

use crate::engine::{Engine, Inferred};
use crate::error::ServeError;
use crate::incoming::shared_memory::{self, PinnedRegions, SharedMemory};
use crate::launch::{BatchMonitor, InUse, Launcher, LoadedModel};
use crate::metrics::{GpuMeter, GpuSample};
use crate::repository::{IndexEntry, IndexFilter, LoadOptions, Repository, ServingVersion};
use crate::settings::excerpt;
use crate::settings::log::LogStore;
use crate::settings::trace::{TraceLevel, TraceStore};
use crate::statistics::Snapshot;

pub(crate) struct Server {
    identity: Identity,
    repository: Arc<Repository<Launcher>>,
    memory: SharedMemory,
    trace: TraceStore,
    log: LogStore,
    gpu_meter: GpuMeter,
    phase: ArcSwap<Phase>,
    stop: CancellationToken,
}

/// The parts of a new server.
pub(crate) struct Parts {
    pub identity: Identity,
    pub repository: Arc<Repository<Launcher>>,
    /// Shared memory that clients have registered.
    pub memory: SharedMemory,
    pub trace: TraceStore,
    pub log: LogStore,
    pub gpu_meter: GpuMeter,
    /// Cancelled when the server has to stop.
    pub stop: CancellationToken,
}

/// Name, version and extensions in the server's metadata.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The value of `--id`.
    pub name: String,
    pub version: String,
    /// The V2 extensions that the server supports.
    pub extensions: &'static [&'static str],
}

/// The V2 extensions, by the names that clients look for.
pub(crate) const EXTENSIONS: &[&str] = &[
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
];

/// A phase of the process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Models are being loaded.
    Starting,
    Serving,
    /// A stop was requested: the process is no longer ready, but still answers requests.
    Draining,
}

/// The metadata of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelMetadata {
    pub name: String,
    /// The ready versions, ascending.
    pub versions: Vec<String>,
    /// `platform` of the configuration, otherwise the backend.
    pub platform: String,
    /// The inputs, with the batch dimension.
    pub inputs: Vec<TensorSpec>,
    /// The outputs, with the batch dimension.
    pub outputs: Vec<TensorSpec>,
}

impl Server {
    /// Creates a server over a repository; it is not ready yet.
    #[must_use]
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { identity, repository, memory, trace, log, gpu_meter, stop } = parts;
        let phase = ArcSwap::from_pointee(Phase::Starting);
        Self { identity, repository, memory, trace, log, gpu_meter, phase, stop }
    }

    /// The most recent state of the GPUs in use.
    pub(crate) fn gpus(&self) -> Vec<GpuSample> {
        self.gpu_meter.latest()
    }

    /// Enters the next phase of the process's life.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(Arc::new(phase));
    }

    /// Liveness of the process; the platform restarts a process that is not live.
    ///
    /// # Errors
    /// [`ServeError::Exiting`] after a stop was requested, [`ServeError::Stuck`] while a batch is stuck.
    pub(crate) fn live(&self) -> Result<(), ServeError> {
        match (**self.phase.load(), self.batch_monitor().stuck()) {
            (Phase::Draining, _) => Err(ServeError::Exiting),
            (Phase::Starting | Phase::Serving, Some(batch)) => Err(ServeError::Stuck(batch.to_string())),
            (Phase::Starting | Phase::Serving, None) => Ok(()),
        }
    }

    /// The running batches of all models.
    #[must_use]
    pub(crate) fn batch_monitor(&self) -> &BatchMonitor {
        self.repository.launch().batch_monitor()
    }

    /// Readiness for new clients: the server is in service, and as many models are loaded as the readiness policy
    /// demands.
    #[must_use]
    pub(crate) fn ready(&self) -> bool {
        **self.phase.load() == Phase::Serving && self.live().is_ok() && self.repository.is_ready()
    }

    /// Number of requests that all models together run at once.
    #[must_use]
    pub(crate) fn capacity(&self) -> usize {
        self.repository.launch().capacity()
    }

    #[must_use]
    pub(crate) fn repository(&self) -> &Arc<Repository<Launcher>> {
        &self.repository
    }

    #[must_use]
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Finds the ready version for a model's name and a version; an empty version means the newest.
    ///
    /// # Errors
    /// [`ServeError`] that names what is unknown or not ready.
    pub(crate) fn find(&self, model: &str, version: &str) -> Result<InUse, ServeError> {
        loop {
            let loaded = self.repository.find(model, version)?;
            // The version was retired in the meantime. The repository replaces a version before it retires the old one,
            // so the next look-up finds the successor or that there is none.
            if let Ok(in_use) = InUse::take(loaded) {
                return Ok(in_use);
            }
        }
    }

    /// Returns the repository's own name of a model, which may also answer to a second name (`--model-name`).
    ///
    /// # Errors
    /// [`ServeError`], as from [`Server::find`].
    pub(crate) fn own_name(&self, model: &str) -> Result<String, ServeError> {
        let found = self.find(model, "")?;
        Ok(found.engine.interface().model.clone())
    }

    /// Runs one request on a version that [`Server::find`] returned.
    ///
    /// # Errors
    /// [`ServeError`], as from [`Engine::infer`], and if shared memory cannot be written.
    pub(crate) fn infer<'a>(
        &'a self,
        engine: &'a Engine,
        request: InferRequest,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Inferred, ServeError>> + 'a {
        let pinned = self.memory.pin(&request.outputs);
        let inferred = engine.infer(request, deadline, &self.memory);
        // An `async fn` would store the request twice in its future, as argument and as local variable.
        inferred.map(move |inferred| {
            let inferred = inferred?;
            deliver(&pinned, &inferred.response.outputs)?;
            match self.trace.sample(&inferred.response.model) {
                TraceLevel::Off => {}
                level => trace(level, &inferred),
            }
            Ok(inferred)
        })
    }

    /// Returns a model's metadata: inputs, outputs and versions.
    ///
    /// # Errors
    /// [`ServeError`], as from [`Server::find`].
    pub(crate) fn model_metadata(&self, model: &str, version: &str) -> Result<ModelMetadata, ServeError> {
        let loaded = self.find(model, version)?;
        let interface = loaded.engine.interface();
        let specs = |tensors: &[crate::backend::TensorConfig]| {
            tensors.iter().map(|t| t.spec(interface.signature.max_batch_size)).collect()
        };
        let versions = match version {
            "" => {
                let ready = self.repository.model(model)?;
                ready.iter().map(|(number, _)| number.to_string()).collect()
            }
            asked => vec![asked.to_owned()],
        };
        Ok(ModelMetadata {
            name: interface.model.clone(),
            versions,
            platform: loaded.platform().to_owned(),
            inputs: specs(&interface.signature.inputs),
            outputs: specs(&interface.signature.outputs),
        })
    }

    /// Names of the models with a ready version, in order.
    #[must_use]
    pub(crate) fn models(&self) -> Vec<String> {
        let mut names: Vec<String> = self.repository.serving().into_iter().map(|serving| serving.model).collect();
        names.dedup();
        names
    }

    /// Statistics of one version, of all ready versions of a model, or of all models.
    ///
    /// # Errors
    /// [`ServeError::NotFound`] for a model or version that is not ready.
    pub(crate) fn statistics(&self, model: &str, version: &str) -> Result<Vec<(String, u64, Snapshot)>, ServeError> {
        let name_of = |found: Arc<LoadedModel>| found.engine.interface().model.clone();
        let own = self.repository.find(model, version).map(name_of);
        if !model.is_empty() && own.is_err() {
            let is_known = self.repository.find(model, "").is_ok();
            return Err(ServeError::NotFound(if is_known {
                format!("requested model version is not available for model '{model}'")
            } else {
                format!("requested model '{model}' is not available")
            }));
        }
        let wanted = |name: &str, number: u64| {
            (model.is_empty() || own.as_deref().is_ok_and(|own| own == name))
                && (version.is_empty() || version == number.to_string())
        };
        let serving = self.repository.serving().into_iter();
        Ok(serving
            .filter(|one| wanted(&one.model, one.version))
            .map(|one| (one.model, one.version, one.served.engine.snapshot()))
            .collect())
    }

    /// Every ready version, in order of model and version.
    #[must_use]
    pub(crate) fn serving(&self) -> Vec<ServingVersion<LoadedModel>> {
        self.repository.serving()
    }

    /// Entries of the repository index.
    #[must_use]
    pub(crate) fn index(&self, listing: IndexFilter) -> Vec<IndexEntry> {
        self.repository.index(listing)
    }

    /// Loads or reloads a model.
    ///
    /// # Errors
    /// [`ServeError`] if the load fails.
    pub(crate) async fn load(&self, model: &str, options: LoadOptions) -> Result<(), ServeError> {
        self.repository.load(model, options).await
    }

    /// Unloads a model.
    ///
    /// # Errors
    /// [`ServeError`] if the unload fails.
    pub(crate) async fn unload(&self, model: &str) -> Result<(), ServeError> {
        self.repository.unload(model).await
    }

    #[must_use]
    pub(crate) fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    #[must_use]
    pub(crate) fn trace(&self) -> &TraceStore {
        &self.trace
    }

    #[must_use]
    pub(crate) fn log(&self) -> &LogStore {
        &self.log
    }

    /// Runs queued requests without waiting for more requests to batch with: the ports are closed, so none will come.
    pub(crate) fn flush(&self) {
        for serving in self.repository.serving() {
            serving.served.engine.flush();
        }
    }

    /// True after a stop was requested.
    #[must_use]
    pub(crate) fn is_draining(&self) -> bool {
        **self.phase.load() == Phase::Draining || self.stop.is_cancelled()
    }

    /// Cancelled when the server accepts no new requests.
    #[must_use]
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.stop
    }

    /// Waits for `period`. Returns `false` if the server stops first.
    pub(crate) async fn wait(&self, period: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(period) => true,
        }
    }
}

/// Writes the outputs that go to shared memory; none of them if two would overwrite each other.
fn deliver(pinned: &PinnedRegions, outputs: &[(Tensor, Delivery)]) -> Result<(), ServeError> {
    shared_memory::check_apart(outputs).map_err(ServeError::codec)?;
    for (tensor, delivery) in outputs {
        if let Delivery::Shared(range) = delivery {
            write_shared(pinned, range, tensor)?;
        }
    }
    Ok(())
}

fn write_shared(pinned: &PinnedRegions, range: &SharedRange, output: &Tensor) -> Result<(), ServeError> {
    let (name, size) = (output.name(), output.data().len());
    if (size as u64) > range.size {
        return Err(ServeError::Invalid(format!(
            "shared memory size specified with the request for output '{name}' ({} bytes) \
             should be at least {size} bytes to hold the results",
            range.size
        )));
    }
    pinned.write(range, output.data()).map_err(ServeError::codec)
}

/// Writes one request to the log: its stages, its tensors, or both.
fn trace(level: TraceLevel, inferred: &Inferred) {
    let Inferred { response, cost } = inferred;
    let (model, version) = (&response.model, &response.version);
    // A client may send an id as long as a whole request.
    let id = excerpt(&response.id);
    // In JSON logs, numbers of more than 64 bits would become text.
    let us = |duration: Duration| duration.as_micros() as u64;
    if level != TraceLevel::Tensors {
        tracing::info!(
            model,
            version,
            id,
            batch = cost.batch_rows,
            queue_us = us(cost.queue),
            input_us = us(cost.steps.input),
            infer_us = us(cost.steps.infer),
            output_us = us(cost.steps.output),
            "trace: stages"
        );
    }
    if level != TraceLevel::Timestamps {
        for (tensor, _) in &response.outputs {
            let (datatype, shape) = (tensor.datatype(), tensor.shape());
            tracing::info!(model, id, tensor = tensor.name(), %datatype, %shape, "trace: output");
        }
    }
}

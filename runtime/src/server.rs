//! The server's calls, the same for HTTP and gRPC, which are codecs around them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use tokio_util::sync::CancellationToken;
use weir_protocol::{Delivery, InferRequest, SharedRange, Tensor, TensorSpec};

use crate::engine::{Engine, Inferred};
use crate::error::ServeError;
use crate::launch::{InUse, Launcher, LoadedModel, Oversight};
use crate::metrics::{GpuMeter, GpuSample};
use crate::repository::{IndexEntry, IndexFilter, LoadOptions, Repository, ServingVersion};
use crate::settings::excerpt;
use crate::settings::log::LogStore;
use crate::settings::trace::{TraceLevel, TraceStore};
use crate::shared_memory::{self, HeldRegions, SharedMemory};
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

/// The parts that a server is made of.
pub(crate) struct Parts {
    pub identity: Identity,
    pub repository: Arc<Repository<Launcher>>,
    /// Shared memory that clients register.
    pub memory: SharedMemory,
    pub trace: TraceStore,
    pub log: LogStore,
    pub gpu_meter: GpuMeter,
    /// Cancelled when the server is to end.
    pub stop: CancellationToken,
}

/// The server's name and version in its metadata.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The value of `--id`.
    pub name: String,
    pub version: String,
    /// The V2 extensions it has.
    pub extensions: &'static [&'static str],
}

/// The V2 extensions, by the names clients look for.
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

/// A phase in the life of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Models are being loaded.
    Starting,
    Serving,
    /// Asked to end: not ready any more, and still answering.
    Draining,
}

/// A model as its metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelMetadata {
    pub name: String,
    /// Its ready versions, ascending.
    pub versions: Vec<String>,
    /// `platform` of its configuration, else the backend.
    pub platform: String,
    /// Its inputs, the batch dimension included.
    pub inputs: Vec<TensorSpec>,
    /// Its outputs, the batch dimension included.
    pub outputs: Vec<TensorSpec>,
}

impl Server {
    /// A server over a repository, not yet ready.
    #[must_use]
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { identity, repository, memory, trace, log, gpu_meter, stop } = parts;
        let phase = ArcSwap::from_pointee(Phase::Starting);
        Self { identity, repository, memory, trace, log, gpu_meter, phase, stop }
    }

    /// The state of the GPUs in use, as it was read last.
    pub(crate) fn gpus(&self) -> Vec<GpuSample> {
        self.gpu_meter.latest()
    }

    /// Enters the next phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(Arc::new(phase));
    }

    /// Liveness of the process: whoever finds it not live restarts it.
    ///
    /// # Errors
    /// [`ServeError::Exiting`] once it was asked to end, [`ServeError::Stuck`] while a batch is.
    pub(crate) fn live(&self) -> Result<(), ServeError> {
        match (**self.phase.load(), self.oversight().stuck()) {
            (Phase::Draining, _) => Err(ServeError::Exiting),
            (Phase::Starting | Phase::Serving, Some(batch)) => Err(ServeError::Stuck(batch.to_string())),
            (Phase::Starting | Phase::Serving, None) => Ok(()),
        }
    }

    /// The batches of all its models.
    #[must_use]
    pub(crate) fn oversight(&self) -> &Oversight {
        self.repository.launch().oversight()
    }

    /// Readiness for new clients: at work, and as many models loaded as the readiness policy demands.
    #[must_use]
    pub(crate) fn ready(&self) -> bool {
        **self.phase.load() == Phase::Serving && self.live().is_ok() && self.repository.is_ready()
    }

    /// Requests that all its models together work on at once.
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

    /// The ready version for a model's name and a version, which is empty for the newest.
    ///
    /// # Errors
    /// [`ServeError`] naming what is unknown or not ready.
    pub(crate) fn find(&self, model: &str, version: &str) -> Result<InUse, ServeError> {
        loop {
            let loaded = self.repository.find(model, version)?;
            // Retired since: the repository switches before it retires, so the next look-up finds the
            // successor or that there is none.
            if let Ok(in_use) = InUse::take(loaded) {
                return Ok(in_use);
            }
        }
    }

    /// The name under which a model is kept, which may have another beside it.
    ///
    /// # Errors
    /// As [`Server::find`].
    pub(crate) fn own_name(&self, model: &str) -> Result<String, ServeError> {
        let found = self.find(model, "")?;
        Ok(found.engine.interface().model.clone())
    }

    /// Runs one request on a version that [`Server::find`] gave.
    ///
    /// # Errors
    /// As [`Engine::infer`]; shared memory that cannot be written.
    pub(crate) fn infer<'a>(
        &'a self,
        engine: &'a Engine,
        request: InferRequest,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<Inferred, ServeError>> + 'a {
        let held = self.memory.hold(&request.outputs);
        let inferred = engine.infer(request, deadline, &self.memory);
        // An `async fn` would hold the request twice.
        inferred.map(move |inferred| {
            let inferred = inferred?;
            deliver(&held, &inferred.response.outputs)?;
            match self.trace.sample(&inferred.response.model) {
                TraceLevel::Off => {}
                level => trace(level, &inferred),
            }
            Ok(inferred)
        })
    }

    /// A model's metadata: inputs, outputs and versions.
    ///
    /// # Errors
    /// As [`Server::find`].
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

    /// Statistics of one version, of all ready versions of a model, or of everything.
    ///
    /// # Errors
    /// [`ServeError::NotFound`] for a model or version that does not answer.
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

    /// Every ready version, in order.
    #[must_use]
    pub(crate) fn serving(&self) -> Vec<ServingVersion<LoadedModel>> {
        self.repository.serving()
    }

    /// Entries of the repository's index.
    #[must_use]
    pub(crate) fn index(&self, listing: IndexFilter) -> Vec<IndexEntry> {
        self.repository.index(listing)
    }

    /// Loads or reloads a model.
    ///
    /// # Errors
    /// The repository's.
    pub(crate) async fn load(&self, model: &str, options: LoadOptions) -> Result<(), ServeError> {
        self.repository.load(model, options).await
    }

    /// Unloads a model.
    ///
    /// # Errors
    /// The repository's.
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

    /// Has no request wait for companions in its batch any more: the ports are closed.
    pub(crate) fn hurry(&self) {
        for serving in self.repository.serving() {
            serving.served.engine.hurry();
        }
    }

    /// True once it was asked to end.
    #[must_use]
    pub(crate) fn is_draining(&self) -> bool {
        **self.phase.load() == Phase::Draining || self.stop.is_cancelled()
    }

    /// Cancelled when the server takes nothing new any more.
    #[must_use]
    pub(crate) fn ending(&self) -> &CancellationToken {
        &self.stop
    }

    /// Waits, and returns `false` when the server ends first.
    pub(crate) async fn wait(&self, period: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(period) => true,
        }
    }
}

/// Writes the outputs that go to shared memory, none where two would overwrite each other.
fn deliver(held: &HeldRegions, outputs: &[(Tensor, Delivery)]) -> Result<(), ServeError> {
    let apart = shared_memory::check_apart(outputs);
    apart.map_err(|error| ServeError::codec(&error))?;
    for (tensor, delivery) in outputs {
        if let Delivery::Shared(range) = delivery {
            write_shared(held, range, tensor)?;
        }
    }
    Ok(())
}

fn write_shared(held: &HeldRegions, range: &SharedRange, output: &Tensor) -> Result<(), ServeError> {
    let (name, size) = (output.name(), output.data().len());
    if (size as u64) > range.size {
        return Err(ServeError::Invalid(format!(
            "shared memory size specified with the request for output '{name}' ({} bytes) \
             should be at least {size} bytes to hold the results",
            range.size
        )));
    }
    held.write(range, output.data()).map_err(|error| ServeError::codec(&error))
}

/// Writes one request into the log: its stages, its tensors, or both.
fn trace(level: TraceLevel, inferred: &Inferred) {
    let Inferred { response, cost } = inferred;
    let (model, version) = (&response.model, &response.version);
    // An id may be as long as a request.
    let id = excerpt(&response.id);
    // In JSON, numbers of more than 64 bits would be text.
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

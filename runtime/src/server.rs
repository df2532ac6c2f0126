//! The server's calls, whatever wire they came over. HTTP and gRPC are codecs around this.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio_util::sync::CancellationToken;
use weir_protocol::{Delivery, InferRequest, SharedRange, Tensor, TensorSpec};

use crate::engine::{Engine, Inferred};
use crate::error::ServeError;
use crate::launch::{InUse, Launcher, Loaded};
use crate::repository::{IndexEntry, IndexFilter, LoadOptions, Repository, ServingVersion};
use crate::settings::log::LogStore;
use crate::settings::trace::{TraceLevel, TraceStore};
use crate::shared_memory::SharedMemory;
use crate::statistics::Snapshot;

/// A model server.
pub struct Server {
    identity: Identity,
    repository: Arc<Repository<Launcher>>,
    memory: SharedMemory,
    trace: TraceStore,
    log: LogStore,
    phase: ArcSwap<Phase>,
    stop: CancellationToken,
}

/// What a server is made of.
pub struct Parts {
    /// Who it says it is.
    pub identity: Identity,
    /// Its models.
    pub repository: Arc<Repository<Launcher>>,
    /// Shared memory that clients register.
    pub memory: SharedMemory,
    /// What is traced.
    pub trace: TraceStore,
    /// What is logged.
    pub log: LogStore,
    /// Cancelled when watches are to end.
    pub stop: CancellationToken,
}

/// Who the server says it is.
#[derive(Clone, Debug)]
pub struct Identity {
    /// `--id`.
    pub name: String,
    /// Weir's version.
    pub version: String,
    /// The V2 extensions it has.
    pub extensions: &'static [&'static str],
}

/// The V2 extensions, by the names clients look for.
pub const EXTENSIONS: &[&str] = &[
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

/// Where the process is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Models are being loaded.
    Starting,
    /// At work.
    Serving,
    /// Told to end: not ready any more, and still answering.
    Draining,
}

/// A model as its metadata shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelMetadata {
    /// Its name.
    pub name: String,
    /// Its ready versions, ascending.
    pub versions: Vec<String>,
    /// `platform` of its configuration, else the backend.
    pub platform: String,
    /// Its inputs, the batch dimension included.
    pub inputs: Vec<TensorSpec>,
    /// Its outputs, likewise.
    pub outputs: Vec<TensorSpec>,
}

impl Server {
    /// A server over a repository, not yet ready.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            identity,
            repository,
            memory,
            trace,
            log,
            stop,
        } = parts;
        let phase = ArcSwap::from_pointee(Phase::Starting);
        Self {
            identity,
            repository,
            memory,
            trace,
            log,
            phase,
            stop,
        }
    }

    /// Moves on in its life.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(Arc::new(phase));
    }

    /// Whether the process works.
    ///
    /// # Errors
    /// [`ServeError::Exiting`] once it was told to end.
    pub fn live(&self) -> Result<(), ServeError> {
        match **self.phase.load() {
            Phase::Starting | Phase::Serving => Ok(()),
            Phase::Draining => Err(ServeError::Exiting),
        }
    }

    /// Whether new clients should come: at work, and as many models loaded as readiness demands.
    #[must_use]
    pub fn ready(&self) -> bool {
        **self.phase.load() == Phase::Serving && self.repository.is_ready()
    }

    /// Requests that it works on at once: those of all its models together.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.repository.launch().capacity()
    }

    /// Its models.
    #[must_use]
    pub fn repository(&self) -> &Arc<Repository<Launcher>> {
        &self.repository
    }

    /// Who it is.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The ready version that answers to a name.
    ///
    /// # Errors
    /// Why there is none.
    pub fn find(&self, model: &str, version: &str) -> Result<InUse, ServeError> {
        loop {
            let loaded = self.repository.find(model, version)?;
            // Retired since: the repository switches before it retires, so the next look-up finds the
            // successor or that there is none.
            if let Ok(in_use) = InUse::take(loaded) {
                return Ok(in_use);
            }
        }
    }

    /// Runs one request on a version that [`Server::find`] gave.
    ///
    /// # Errors
    /// As [`Engine::infer`]; shared memory that cannot be written.
    pub async fn infer(
        &self,
        engine: &Engine,
        request: InferRequest,
        deadline: Option<Instant>,
    ) -> Result<Inferred, ServeError> {
        let inferred = engine.infer(request, deadline, &self.memory).await?;
        for (tensor, delivery) in &inferred.response.outputs {
            if let Delivery::Shared(range) = delivery {
                self.write_shared(range, tensor)?;
            }
        }
        match self.trace.sample(&inferred.response.model) {
            TraceLevel::Off => {}
            level => trace(level, &inferred),
        }
        Ok(inferred)
    }

    fn write_shared(&self, range: &SharedRange, output: &Tensor) -> Result<(), ServeError> {
        let (name, size) = (output.name(), output.data().len());
        if (size as u64) > range.size {
            return Err(ServeError::Invalid(format!(
                "shared memory size specified with the request for output '{name}' ({} bytes) \
                 should be at least {size} bytes to hold the results",
                range.size
            )));
        }
        self.memory
            .write(range, output.data())
            .map_err(|error| ServeError::codec(&error))
    }

    /// What a model takes and gives.
    ///
    /// # Errors
    /// As [`Server::find`].
    pub fn model_metadata(&self, model: &str, version: &str) -> Result<ModelMetadata, ServeError> {
        let loaded = self.find(model, version)?;
        let interface = loaded.engine.interface();
        let specs = |tensors: &[crate::backend::TensorConfig]| {
            tensors
                .iter()
                .map(|t| t.spec(interface.signature.max_batch_size))
                .collect()
        };
        let versions = self.repository.model(model)?;
        Ok(ModelMetadata {
            name: interface.model.clone(),
            versions: versions
                .iter()
                .map(|(number, _)| number.to_string())
                .collect(),
            platform: loaded.platform().to_owned(),
            inputs: specs(&interface.signature.inputs),
            outputs: specs(&interface.signature.outputs),
        })
    }

    /// Names of the models that answer, in order.
    #[must_use]
    pub fn models(&self) -> Vec<String> {
        let mut names: Vec<String> = self
            .repository
            .serving()
            .into_iter()
            .map(|serving| serving.model)
            .collect();
        names.dedup();
        names
    }

    /// Statistics of one version, of all ready versions of a model, or of everything.
    ///
    /// # Errors
    /// [`ServeError::NotFound`] for a model or version that does not answer.
    pub fn statistics(
        &self,
        model: &str,
        version: &str,
    ) -> Result<Vec<(String, u64, Snapshot)>, ServeError> {
        if !model.is_empty() && self.repository.find(model, version).is_err() {
            return Err(ServeError::NotFound(match version {
                "" => format!("requested model '{model}' is not available"),
                _ => format!("requested model version is not available for model '{model}'"),
            }));
        }
        let wanted = |name: &str, number: u64| {
            (model.is_empty() || model == name)
                && (version.is_empty() || version == number.to_string())
        };
        let serving = self.repository.serving().into_iter();
        Ok(serving
            .filter(|one| wanted(&one.model, one.version))
            .map(|one| (one.model, one.version, one.served.engine.snapshot()))
            .collect())
    }

    /// Every version that answers, in order.
    #[must_use]
    pub fn serving(&self) -> Vec<ServingVersion<Loaded>> {
        self.repository.serving()
    }

    /// What the repository holds.
    #[must_use]
    pub fn index(&self, listing: IndexFilter) -> Vec<IndexEntry> {
        self.repository.index(listing)
    }

    /// Loads or reloads a model.
    ///
    /// # Errors
    /// The repository's.
    pub async fn load(&self, model: &str, options: LoadOptions) -> Result<(), ServeError> {
        self.repository.load(model, options).await
    }

    /// Unloads a model.
    ///
    /// # Errors
    /// The repository's.
    pub async fn unload(&self, model: &str) -> Result<(), ServeError> {
        self.repository.unload(model).await
    }

    /// Registered shared memory.
    #[must_use]
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Trace settings.
    #[must_use]
    pub fn trace(&self) -> &TraceStore {
        &self.trace
    }

    /// Log settings.
    #[must_use]
    pub fn log(&self) -> &LogStore {
        &self.log
    }

    /// Cancelled when the server takes nothing new any more.
    #[must_use]
    pub fn ending(&self) -> &CancellationToken {
        &self.stop
    }

    /// Waits, or says `false` when the server ends first.
    pub async fn wait(&self, period: Duration) -> bool {
        tokio::select! {
            () = self.stop.cancelled() => false,
            () = tokio::time::sleep(period) => true,
        }
    }
}

/// Writes one request into the log: its stages, its tensors, or both.
fn trace(level: TraceLevel, inferred: &Inferred) {
    let Inferred { response, cost } = inferred;
    let (model, version, id) = (&response.model, &response.version, &response.id);
    if level != TraceLevel::Tensors {
        tracing::info!(
            model,
            version,
            id,
            batch = cost.batch_rows,
            queue_us = cost.queue.as_micros(),
            input_us = cost.steps.input.as_micros(),
            infer_us = cost.steps.infer.as_micros(),
            output_us = cost.steps.output.as_micros(),
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

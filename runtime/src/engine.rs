//! A running model version: its queue, its instances and its statistics.
//!
//! ```text
//!   infer ──accept──► Job ──submit──► batcher ◄──pull── instance thread ──run──► model
//!     ▲                                                      │
//!     └────────────── slice of the BatchOutput     ◄──────────┘
//! ```

mod ahead;
mod context;
mod inline;
mod instance;
mod memory;
mod observer;
mod runner;
mod stage;
mod warmup;
mod watch;

use std::future::ready;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::TryFutureExt;
use futures_util::future::Either;
use parking_lot::Mutex;
use weir_batcher::{Batcher, Policy, Terms};
use weir_protocol::{InferRequest, InferResponse, Parameter, Parameters, RequestedOutput, Tensor, classification};

use crate::backend::{Device, LoadError, Model, Timing};
use crate::error::ServeError;
use crate::incoming::off_reactor;
use crate::incoming::request::ReadShared;
use crate::model::batch::OutputSlice;
use crate::model::interface::Interface;
use crate::model::job::Job;
use crate::statistics::{Snapshot, Statistics};

pub use memory::ModelMemory;
use warmup::WarmedUp;
pub(crate) use warmup::{Sample, WarmUpPlan};
pub(crate) use watch::{BatchLimit, EngineWatch, RunThread, StuckBatch};

/// The model and the settings of a new engine.
pub(crate) struct EngineSpec {
    /// The model's interface to requests.
    pub interface: Interface,
    /// The model's version number.
    pub version: u64,
    /// The policy of the model's queue.
    pub policy: Policy,
    /// The device of each instance.
    pub devices: Vec<Device>,
    /// Class labels per output, in the signature's order; empty for outputs without labels.
    pub labels: Vec<Vec<String>>,
    /// Runs to make before readiness.
    pub warm_up: WarmUpPlan,
}

/// A running model version.
pub(crate) struct Engine {
    interface: Arc<Interface>,
    version: String,
    labels: Vec<Arc<[String]>>,
    batcher: Batcher<Job, JobResult>,
    statistics: Arc<Statistics>,
    watch: Arc<EngineWatch>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// The instances by number; `None` for those bound to their thread.
    instances: Vec<Option<inline::SharedRunner>>,
    memory: ModelMemory,
    limitation: Option<String>,
}

/// Size in bytes of scores that are searched for the best classes off the reactor. If a request needs many classes, the
/// scores are sorted, which would delay every other connection for milliseconds.
const LARGE_SCORES: usize = 256 * 1024;

/// An output for which a request selects the best classes.
struct WantedClasses {
    /// Index among the request's outputs.
    at: usize,
    /// Index among the signature's outputs.
    index: usize,
    count: NonZeroUsize,
}

/// The result of a job in the batcher.
type JobResult = Result<JobReply, ServeError>;

/// A job's outputs and their cost.
#[derive(Clone, Debug)]
pub(crate) struct JobReply {
    slice: OutputSlice,
    cost: Cost,
}

/// The durations of one request, and the size of its batch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Time in the queue.
    pub queue: Duration,
    /// Time of the request's batch on the instance.
    pub steps: Timing,
    /// Rows of the request's batch.
    pub batch_rows: usize,
}

impl Cost {
    /// Time of the request's batch on the instance, summed over all steps.
    #[must_use]
    pub(crate) fn compute(&self) -> Duration {
        self.steps.input + self.steps.infer + self.steps.output
    }
}

/// A response and its cost.
#[derive(Debug)]
pub(crate) struct Inferred {
    /// The response to encode.
    pub response: InferResponse,
    /// The cost for the headers `Server-Timing` and `weir-batch`.
    pub cost: Cost,
}

impl Engine {
    /// Starts a thread per instance, and returns when every instance is warm. Blocks.
    ///
    /// # Errors
    /// [`LoadError`] of the first instance that cannot be created or warmed up; the other instances are ended.
    pub(crate) fn start(spec: EngineSpec, model: &Arc<dyn Model>) -> Result<Self, LoadError> {
        let EngineSpec { interface, version, policy, devices, labels, warm_up } = spec;
        let statistics = Arc::new(Statistics::new(devices.len()));
        let observer = observer::StatisticsObserver(Arc::clone(&statistics));
        let batcher = Batcher::new(policy, Arc::new(observer));
        let watched = (interface.model.clone(), version);
        let mut engine = Self {
            watch: Arc::new(EngineWatch::new(watched, batcher.clone(), devices.len())),
            interface: Arc::new(interface),
            version: version.to_string(),
            labels: labels.into_iter().map(Arc::from).collect(),
            batcher,
            statistics,
            threads: Mutex::new(Vec::new()),
            instances: Vec::new(),
            memory: ModelMemory { weights: model.weight_bytes(), ..ModelMemory::default() },
            limitation: None,
        };
        match engine.start_instances(model, &devices, &warm_up) {
            Ok(()) => Ok(engine),
            Err(error) => {
                engine.batcher.close();
                engine.join();
                Err(error)
            }
        }
    }

    fn start_instances(
        &mut self,
        model: &Arc<dyn Model>,
        devices: &[Device],
        warm_up: &WarmUpPlan,
    ) -> Result<(), LoadError> {
        let warm_up = Arc::new(warm_up.clone());
        let failures = Arc::default();
        for (index, &device) in devices.iter().enumerate() {
            let context = context::InstanceContext {
                index,
                device,
                interface: Arc::clone(&self.interface),
                statistics: Arc::clone(&self.statistics),
                batcher: self.batcher.clone(),
                watch: Arc::clone(&self.watch),
                failures: Arc::clone(&failures),
            };
            let started = context.start(Arc::clone(model), Arc::clone(&warm_up))?;
            self.threads.lock().push(started.thread);
            self.instances.push(started.ready.shared);
            let WarmedUp { memory, limitation } = started.ready.warmed_up;
            if let Some(memory) = memory {
                self.memory.add(memory, started.ready.overlap);
            }
            self.limitation = self.limitation.take().or(limitation);
        }
        Ok(())
    }

    /// Answers one request. After `deadline` the answer is useless, so the request fails. Dropping the future removes
    /// the request from the queue.
    ///
    /// # Errors
    /// [`ServeError`] if the request is invalid, was refused, or the model failed.
    pub(crate) fn infer<'a>(
        &'a self,
        request: InferRequest,
        deadline: Option<Instant>,
        memory: &'a dyn ReadShared,
    ) -> impl Future<Output = Result<Inferred, ServeError>> + 'a {
        let answered = self.answer(request, deadline, memory);
        // Combined with `and_then` instead of an `async` block, so that the second step reuses the memory of the first.
        answered.and_then(|(inferred, classes)| self.classified(inferred, classes))
    }

    /// Returns the answer with scores, and the outputs whose scores are to be replaced by classes.
    fn answer<'a>(
        &'a self,
        request: InferRequest,
        deadline: Option<Instant>,
        memory: &'a dyn ReadShared,
    ) -> impl Future<Output = Result<(Inferred, Vec<WantedClasses>), ServeError>> + 'a {
        let terms = terms(&request.parameters, deadline);
        // An `async fn` would store the request twice in its future, as argument and as local variable.
        async move {
            let terms = terms?;
            self.watch.check()?;
            let accepted = self.interface.accept(request, memory)?;
            let mut ticket = self.batcher.submit(accepted.job, terms)?;
            inline::run_if_short(&self.batcher, &mut ticket, &self.instances).await;
            let reply = ticket.await.map_err(|error| self.watch.explain(error))??;
            let classes = wanted_classes(&accepted.outputs);
            let inferred =
                Inferred { response: self.respond(accepted.id, accepted.outputs, &reply.slice)?, cost: reply.cost };
            Ok((inferred, classes))
        }
    }

    /// Replaces scores by classes if the request selects any.
    fn classified<'a>(
        &'a self,
        inferred: Inferred,
        wanted: Vec<WantedClasses>,
    ) -> impl Future<Output = Result<Inferred, ServeError>> + 'a {
        if wanted.is_empty() {
            Either::Left(ready(Ok(inferred)))
        } else {
            // Boxed, because few requests select classes, and otherwise all would reserve the space while they wait.
            Either::Right(Box::pin(self.classify(inferred, wanted)))
        }
    }

    fn respond(
        &self,
        id: String,
        outputs: Vec<(usize, RequestedOutput)>,
        slice: &OutputSlice,
    ) -> Result<InferResponse, ServeError> {
        let mut tensors = Vec::with_capacity(outputs.len());
        for (index, requested) in outputs {
            let tensor = slice.output(&self.interface, index)?;
            tensors.push((tensor, requested.delivery));
        }
        Ok(InferResponse {
            model: self.interface.model.clone(),
            version: self.version.clone(),
            id,
            parameters: slice.parameters(),
            outputs: tensors,
        })
    }

    /// Replaces the scores of the selected outputs by the best classes.
    async fn classify(&self, mut inferred: Inferred, wanted: Vec<WantedClasses>) -> Result<Inferred, ServeError> {
        for WantedClasses { at, index, count } in wanted {
            if let Some((scores, _)) = inferred.response.outputs.get_mut(at) {
                *scores = self.best_classes(scores.clone(), index, count).await?;
            }
        }
        Ok(inferred)
    }

    async fn best_classes(&self, scores: Tensor, index: usize, count: NonZeroUsize) -> Result<Tensor, ServeError> {
        let labels = self.labels.get(index).cloned().unwrap_or_default();
        let batching = self.interface.batching();
        let is_large = scores.data().len() > LARGE_SCORES;
        let work = move || classification(&scores, batching, count, &labels);
        let classified = if is_large { off_reactor(work).await? } else { work() };
        classified.map_err(ServeError::codec)
    }

    /// The model's interface to requests.
    #[must_use]
    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the statistics, including the number of queued requests.
    #[must_use]
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot { pending: self.batcher.queued() as u64, ..self.statistics.snapshot() }
    }

    /// The running batches of the engine.
    #[must_use]
    pub(crate) fn watch(&self) -> &Arc<EngineWatch> {
        &self.watch
    }

    /// Memory of the weights, and of the runs before readiness.
    #[must_use]
    pub(crate) fn memory(&self) -> ModelMemory {
        self.memory
    }

    /// The reason why requests will probably fail, as the warm-up has shown; `None` if it has shown none.
    #[must_use]
    pub(crate) fn limitation(&self) -> Option<&str> {
        self.limitation.as_deref()
    }

    /// Predicted queue wait of a request that arrives now, from the measured batch times.
    #[must_use]
    pub(crate) fn predicted_wait(&self) -> Duration {
        self.batcher.predicted_wait()
    }

    /// Rows of the largest batch that is formed now: the model's maximum batch size, unless a batch ran out of the
    /// device's memory.
    #[must_use]
    pub(crate) fn batch_bound(&self) -> usize {
        let most = self.interface.signature.max_batch_size.max(1);
        self.batcher.memory_bound().map_or(most, |bound| bound.min(most))
    }

    /// Number of requests that run at once: a full batch on every instance.
    #[must_use]
    pub(crate) fn capacity(&self) -> usize {
        self.interface.signature.max_batch_size.max(1) * self.instances.len()
    }

    /// Runs queued requests without waiting for more requests to batch with, because few or none will come.
    pub(crate) fn flush(&self) {
        self.batcher.flush();
    }

    /// Refuses new requests, answers the queued ones, and ends the instances.
    pub(crate) async fn drain(&self) {
        self.batcher.close();
        self.batcher.drained().await;
        let threads = std::mem::take(&mut *self.threads.lock());
        let watch = Arc::clone(&self.watch);
        // Joining blocks. The threads end by themselves once the queue is closed and empty, except those whose model
        // never returns, which are not joined.
        let joined = tokio::task::spawn_blocking(move || {
            for (index, thread) in threads.into_iter().enumerate() {
                if !watch.instance(index).is_stuck() {
                    let _ = thread.join();
                }
            }
        });
        if joined.await.is_err() {
            tracing::error!(model = self.interface.model, "an instance thread could not be joined");
        }
    }

    fn join(&self) {
        for thread in std::mem::take(&mut *self.threads.lock()) {
            if thread.join().is_err() {
                tracing::error!(model = self.interface.model, "an instance thread panicked");
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Threads of an engine that was not drained end when its queue is closed.
        self.batcher.close();
    }
}

fn wanted_classes(outputs: &[(usize, RequestedOutput)]) -> Vec<WantedClasses> {
    let outputs = outputs.iter().enumerate();
    let wanted =
        outputs.filter_map(|(at, (index, output))| Some(WantedClasses { at, index: *index, count: output.classes? }));
    wanted.collect()
}

/// Parses the parameters `priority` and `timeout` (microseconds), both unsigned integers.
fn terms(parameters: &Parameters, deadline: Option<Instant>) -> Result<Terms, ServeError> {
    let priority = unsigned(parameters, "priority")?.unwrap_or(0);
    let timeout = unsigned(parameters, "timeout")?.filter(|micros| *micros > 0);
    Ok(Terms {
        // A priority too large for `u32` is beyond every level, so the policy uses the default level.
        priority: u32::try_from(priority).unwrap_or(u32::MAX),
        timeout: timeout.map(Duration::from_micros),
        deadline,
    })
}

fn unsigned(parameters: &Parameters, key: &str) -> Result<Option<u64>, ServeError> {
    match parameters.get(key) {
        None => Ok(None),
        Some(Parameter::Uint(value)) => Ok(Some(*value)),
        Some(Parameter::Int(value)) if *value >= 0 => Ok(Some(value.unsigned_abs())),
        Some(Parameter::Int(_) | Parameter::Bool(_) | Parameter::Double(_) | Parameter::String(_)) => {
            Err(ServeError::Invalid(format!("parameter '{key}' must be an unsigned integer")))
        }
    }
}

#[cfg(test)]
mod tests;

//! The interface to a model library: [`Backend`] loads a [`Model`], a model makes [`Instance`]s, and an instance runs a
//! [`Batch`]. All calls are synchronous. An instance stays on one thread unless its [`Affinity`] allows others.
//!
//! ```text
//!   Backend ──load──► Model (weights, shared) ──instance──► Instance (one per thread) ──run──► BatchOutput
//! ```

mod model_source;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_protocol::{DataType, Parameters, Shape, Tensor};

pub use self::model_source::{ModelCode, ModelSource, TensorConfig, UnguardedOperators, WarmUpFailures, WarmUpSample};
pub use crate::inspection::Inspection;

/// Stack size of each thread that may call a [`Backend`], a [`Model`] or an [`Instance`]. libtorch compiles a graph
/// recursively on the thread that runs it first, and a stack overflow ends the process. The 2 MiB of Rust's threads are
/// too small for models that run in Python, whose main thread has 8 MiB on Linux. A stack takes memory only as it is
/// used.
pub const STACK_OF_MODELS: usize = 32 << 20;

/// A library that can load models, such as libtorch.
pub trait Backend: Send + Sync {
    /// Names of the backend in `backend:` or `platform:` of a model's configuration.
    fn names(&self) -> &'static [&'static str];

    /// The file that a version directory must hold, such as `model.pt`; `None` if the backend needs no file.
    fn default_filename(&self) -> Option<&'static str>;

    /// Loads the weights and determines the signature. The caller runs this outside the async reactor, because it may
    /// take long.
    ///
    /// # Errors
    /// [`LoadError`] with a reason that names the file.
    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError>;

    /// Returns a phrase about a model file that contains code, such as `is TorchScript, which is code: …`, with a way
    /// to save the model as data; `None` if the file is only data. [`ModelCode::Forbid`] refuses a model with code. A
    /// backend that does not implement this method counts as one whose models are code.
    fn code_in(&self, source: &ModelSource) -> Option<String> {
        let _ = source;
        Some("may contain code: torch.export.save the model, and serve that file".to_owned())
    }

    /// Returns true if the backend can run models on GPUs. Otherwise instances of kind `KIND_AUTO` are placed on the
    /// CPU.
    fn runs_on_gpus(&self) -> bool {
        true
    }

    /// Describes a model without serving it, for `weir-runtime inspect`.
    ///
    /// # Errors
    /// [`LoadError`] if the model cannot be served, or the backend does not describe models.
    fn inspect(&self, source: &ModelSource) -> Result<Inspection, LoadError> {
        Err(LoadError::Config(format!("models of the backend of '{}' cannot be inspected", source.name)))
    }

    /// Ends the loads in progress as far as possible, and refuses later ones. Called when the server stops.
    fn close(&self) {}
}

/// A loaded model version: weights and signature, shared by its instances.
pub trait Model: Send + Sync {
    /// Inputs and outputs: the configured ones if there are any, otherwise inferred.
    fn signature(&self) -> &Signature;

    /// Makes an instance, on the thread that will run it.
    ///
    /// # Errors
    /// [`LoadError`] if the device has no room for another instance.
    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError>;

    /// Returns the runs to make before readiness, so that the first requests do not pay for the model's slow first
    /// runs.
    fn warm_up(&self) -> WarmUp {
        WarmUp::Needless
    }

    /// Returns the bytes of the model's weights, over all devices and copies; `None` if they are unknown.
    fn weight_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the reason why the model is served with less than its configuration allows, for the repository index;
    /// `None` if it is served in full.
    fn limitation(&self) -> Option<&str> {
        None
    }
}

/// The runs of a model before it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Runs on these inputs: the first runs are slow (compilation, caches), and the time of each batch size is
    /// measured.
    On(Arc<[WarmUpInput]>),
    /// No runs: the first run is as fast as any other, or no input is known that the model takes.
    Needless,
}

/// An input that the model has already run on safely.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUpInput {
    /// Padding bucket that is the size of each input's first variable dimension; `None` if requests are not padded.
    pub length: Option<usize>,
    /// One row per input of the signature; `None` for an optional input that is left out. Shapes are those that the
    /// model takes, without the batch dimension.
    pub row: Vec<Option<RequestTensor>>,
    /// Rows of the largest batch of this input that the model has run.
    pub most_rows: usize,
}

/// Executor of a model, which runs one batch at a time.
pub trait Instance: Send {
    /// Runs one batch.
    ///
    /// # Errors
    /// [`ModelError`] fails the whole batch. The engine then runs the batch in halves if memory ran out, otherwise its
    /// requests one by one.
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError>;

    /// Threads that may run the instance.
    fn affinity(&self) -> Affinity {
        Affinity::Thread
    }

    /// Number of batches that the engine may start before it has the first one's answer; one by default.
    fn overlap(&self) -> Overlap {
        Overlap::None
    }

    /// Returns a copy of the instance in its current state for warm-up runs, which must not change the answers of this
    /// one; `None` if no run changes them.
    ///
    /// # Errors
    /// [`LoadError`] if the device has no room for another instance.
    fn warm_up_copy(&self) -> Result<Option<Box<dyn Instance>>, LoadError> {
        Ok(None)
    }

    /// Returns the memory of the largest run before [`Instance::finish_warm_up`]; `None` if none ran or the backend
    /// does not count it.
    fn run_memory(&self) -> Option<RunMemory> {
        None
    }

    /// Tries a cheaper way to run batches like this one, which the instance has just run. The engine calls this in a
    /// warm-up, after the size was measured. The outputs must stay the same.
    fn capture(&mut self, batch: &Batch) -> Captured {
        let _ = batch;
        Captured::No
    }

    /// Frees the memory that only loading and warm-up needed.
    fn finish_warm_up(&mut self) {}

    /// Copies the inputs of one request into memory from which the device copies them, because the request will
    /// probably be in the next batch of at most `most` rows. `request` is a batch of this request alone. Returns `None`
    /// if the inputs cannot be staged, or the memory is full. The next call of [`Instance::start`] or [`Instance::run`]
    /// discards what it does not use.
    fn stage(&mut self, request: &Batch, most: usize) -> Option<StagedRows> {
        let _ = (request, most);
        None
    }

    /// Starts a batch like [`Instance::run`], but does not wait for a device that works asynchronously. Inputs of
    /// requests that were staged need not be copied again; see [`RequestInfo::staged`]. Started batches finish in the
    /// order of their start. [`Instance::run`] may be called in between.
    ///
    /// # Errors
    /// [`ModelError`], as from [`Instance::run`]; most failures of a model are reported here already. Batches started
    /// before are not affected.
    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        self.run(batch).map(Started::Done)
    }
}

/// The binding of an instance to the thread that created it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// The instance uses thread pools, streams or other state that belongs to its thread.
    Thread,
    /// The instance is not bound: a short batch may run on the thread that received the request, which saves a change
    /// of threads.
    None,
}

/// The result of [`Instance::capture`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Captured {
    /// Later batches of this size are faster.
    Yes,
    /// Batches run as before.
    No,
}

/// Number of batches that an instance holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// One batch: running it keeps the calling thread busy.
    None,
    /// Two batches: while the output of the first is returned, the inputs of the second are copied to the device, which
    /// starts the second batch without waiting for this process.
    OneAhead,
}

/// Memory of a run on its device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunMemory {
    /// The most that the run allocated at once, including its outputs but not its inputs.
    pub workspace: u64,
    /// Size of the inputs.
    pub inputs: u64,
    /// Memory that captured runs hold beside other runs.
    pub graphs: u64,
}

/// A batch whose run has started.
pub enum Started {
    /// The batch has run, with this output.
    Done(BatchOutput),
    /// The batch is queued on a device, and the output comes later.
    Pending(Box<dyn Pending>),
}

/// A batch that runs on a device. Any thread may wait for it; dropping it discards the answer.
pub trait Pending: Send {
    /// Waits until the device has finished the batch.
    ///
    /// # Errors
    /// [`ModelError`] fails the whole batch.
    fn finish(self: Box<Self>) -> Result<BatchOutput, ModelError>;
}

impl Started {
    /// Waits until the device has finished the batch, unless the batch has already run.
    ///
    /// # Errors
    /// [`ModelError`], as from [`Pending::finish`].
    pub fn finish(self) -> Result<BatchOutput, ModelError> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Pending(batch) => batch.finish(),
        }
    }
}

/// Inputs, outputs and batch size of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Inputs, in the model's order.
    pub inputs: Vec<TensorConfig>,
    /// Outputs, in the model's order.
    pub outputs: Vec<TensorConfig>,
    /// The largest batch in rows; 0 for a model whose tensors have no batch dimension.
    pub max_batch_size: usize,
    /// Differences from `inputs` that requests may have.
    pub tolerance: ShapeTolerance,
}

/// The differences from an inferred signature that a request's tensors may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ShapeTolerance {
    /// No differences: datatypes, ranks and fixed dimensions must match the signature.
    #[default]
    None,
    /// Each input may have one more dimension, before those of the signature.
    OneLeadingDim,
    /// Each input may have more dimensions before those of the signature, the same number in every input.
    LeadingDims,
    /// Each input may have any rank, the same in every input; all dimensions of the signature are variable.
    AnyRank,
    /// Datatypes and shapes may differ: the signature is a guess, and the model does not batch.
    Everything,
}

/// A device that executes models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Device {
    /// The processor of the machine.
    Cpu,
    /// The CUDA device with this index.
    Cuda(usize),
}

/// Requests collected to run together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Sum of the requests' batch sizes; 1 for a model without a batch dimension.
    pub rows: usize,
    /// The model's inputs in the signature's order; an optional input that no request sent is absent.
    pub columns: Vec<Column>,
    /// Properties of the requests, in the order of their rows.
    pub requests: Vec<RequestInfo>,
}

/// One input of a batch: the requests' data, still in the buffers that they arrived in.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name of the input.
    pub name: Arc<str>,
    /// Datatype of the elements.
    pub datatype: DataType,
    /// Shape of the batch tensor as the model takes it: rows first, padded dimensions at the size of their bucket.
    pub shape: Shape,
    /// One part per request, row-major. If a part is smaller than the column beyond the first dimension, `pad` fills
    /// the rest.
    pub parts: Vec<RequestTensor>,
    /// The padding value, cast to this column's datatype when it is written.
    pub pad: f64,
}

/// One request's share of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestTensor {
    /// Shape as the model takes it, rows first.
    pub shape: Shape,
    /// Datatype of the elements: the input's, unless the signature is a guess.
    pub datatype: DataType,
    /// The elements as the request sent them.
    pub data: bytes::Bytes,
}

/// Properties of a request that a backend may use.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// Batch size of the request in rows.
    pub rows: usize,
    /// Parameters of the request, without the reserved ones.
    pub parameters: Arc<Parameters>,
    /// The place where [`Instance::stage`] put this request's inputs; `None` if they were not staged.
    pub staged: Option<StagedRows>,
}

/// A place in the memory that an instance stages inputs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedRows {
    /// Number of the memory, which the instance uses for one batch only.
    pub memory: u64,
    /// The request's first row in the memory.
    pub first: usize,
}

/// The outputs of a batch.
#[derive(Clone, Debug)]
pub struct BatchOutput {
    /// The outputs in the signature's order, with the rows of all requests. The engine slices them.
    pub outputs: Vec<Tensor>,
    /// Parameters of the responses: none, or one set per request.
    pub parameters: Vec<Parameters>,
    /// Duration of each step.
    pub timing: Timing,
}

/// Durations of the steps of a run: Triton's `compute_input`, `compute_infer` and `compute_output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Gathering the parts into batch tensors and copying them to the device, without what was staged before.
    pub input: Duration,
    /// Running the model itself.
    pub infer: Duration,
    /// Copying the outputs back and arranging them.
    pub output: Duration,
}

/// Failure to load a model. The text is shown in the repository index, in the log and to the client that requested the
/// load.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is missing, unreadable or not a model.
    #[error("{0}")]
    File(String),
    /// Configuration and model disagree, or the configuration needs an unsupported feature.
    #[error("{0}")]
    Config(String),
    /// The device is absent, unusable or full.
    #[error("{0}")]
    Device(String),
    /// A warm-up run failed.
    #[error("{0}")]
    Warmup(String),
}

/// Failure of a batch.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model raised an error; the text is the library's.
    #[error("{0}")]
    Failed(String),
    /// The inputs are not among those that the model takes; the text names one.
    #[error("{0}")]
    Refused(String),
    /// The device had too little memory for a batch of this size.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
}

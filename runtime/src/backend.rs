//! The interface to a model library: [`Backend`] loads a [`Model`], a model makes [`Instance`]s, an
//! instance runs a [`Batch`]. All of it is synchronous, and an instance changes thread only if it says
//! that it may.
//!
//! ```text
//!   Backend ──load──► Model (weights, shared) ──instance──► Instance (one per thread) ──run──► Answer
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_protocol::{DataType, Parameters, Shape, Tensor, TensorSpec};

/// Stack of each thread that may call a [`Backend`], a [`Model`] or an [`Instance`]. libtorch compiles a graph by recursion,
/// on the thread that runs it first, and a stack that overflows ends the process. The 2 MiB of Rust's threads are too
/// small for what runs in Python, on the 8 MiB that Linux gives to a program; a stack takes memory only as it is used.
pub const STACK_OF_MODELS: usize = 32 << 20;

/// A library that can load models, such as libtorch.
pub trait Backend: Send + Sync {
    /// Names that `backend:` or `platform:` in a model's configuration may use for it.
    fn names(&self) -> &'static [&'static str];

    /// The file a version directory must hold, such as `model.pt`; `None` where no file is needed.
    fn default_filename(&self) -> Option<&'static str>;

    /// Loads weights and learns the signature. Called off the reactor; may take long.
    ///
    /// # Errors
    /// [`LoadError`] with a reason that names the file.
    fn load(&self, source: &ModelSource) -> Result<Arc<dyn Model>, LoadError>;

    /// Ends the loads that are under way, as far as they can be ended, and refuses later ones. Called when the server
    /// stops.
    fn close(&self) {}
}

/// A loaded model version: weights and signature, shared by its instances.
pub trait Model: Send + Sync {
    /// Inputs and outputs. Equal to the configuration's where that has them, else inferred.
    fn signature(&self) -> &Signature;

    /// Makes an instance, on the thread that will run it.
    ///
    /// # Errors
    /// [`LoadError`] when the device cannot take another.
    fn instance(&self, device: Device) -> Result<Box<dyn Instance>, LoadError>;

    /// The runs before readiness that spare the first requests what first runs cost.
    fn warm_up(&self) -> WarmUp {
        WarmUp::Needless
    }

    /// The reason why the model is served with less than its configuration allows, for the repository index; `None`
    /// where there is none.
    fn doubt(&self) -> Option<&str> {
        None
    }
}

/// The runs of a model before it is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WarmUp {
    /// Runs of these inputs: first runs are slow (compilation, caches), and the cost of each batch size is worth
    /// knowing.
    On(Arc<[WarmUpInput]>),
    /// None: every run is like the first, or no input is known that the model takes.
    Needless,
}

/// An input that the model has run on without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WarmUpInput {
    /// The padding bucket that its variable dimensions have; `None` where requests are not padded.
    pub length: Option<usize>,
    /// One row of each of the signature's inputs, `None` for an optional one that is left out. Shapes are as the model
    /// takes them, without the batch dimension.
    pub row: Vec<Option<Part>>,
    /// Rows of the largest batch of it that the model has run.
    pub most_rows: usize,
}

/// Handling of a model whose configuration contradicts what it takes or returns (`--warm-up-failures`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WarmUpFailures {
    /// The load fails: every request would fail too.
    Refuse,
    /// It is served; the log has the reason.
    Allow,
}

/// A runner of batches, one at a time.
pub trait Instance: Send {
    /// Runs one batch.
    ///
    /// # Errors
    /// [`ModelError`] fails the whole batch; the engine then tries its requests one by one.
    fn run(&mut self, batch: &Batch) -> Result<Answer, ModelError>;

    /// Threads that may run it.
    fn affinity(&self) -> Affinity {
        Affinity::Thread
    }

    /// The overlap of a batch with the one before.
    fn overlap(&self) -> Overlap {
        Overlap::None
    }

    /// An instance as this one is now, for runs that must not change what this one answers, as the warm-up's;
    /// `None` where no run changes that.
    ///
    /// # Errors
    /// [`LoadError`] when the device cannot take another.
    fn rehearsal(&self) -> Result<Option<Box<dyn Instance>>, LoadError> {
        Ok(None)
    }

    /// Frees memory that only loading and warm-up needed.
    fn finish_warm_up(&mut self) {}

    /// As [`Instance::run`], without waiting for a device that works by itself. What was started comes
    /// back in the order it was started in, and [`Instance::run`] may be called meanwhile.
    ///
    /// # Errors
    /// As [`Instance::run`]; most failures of a model show here already. Batches started before are
    /// not harmed.
    fn start(&mut self, batch: &Batch) -> Result<Started, ModelError> {
        self.run(batch).map(Started::Done)
    }
}

/// The binding of an instance to the thread that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Thread pools, streams or other state that belongs to the thread.
    Thread,
    /// Nothing: short batches may run wherever the request arrived, without a change of threads.
    None,
}

/// Number of batches that an instance takes at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// One: running it keeps the calling thread busy.
    None,
    /// One, and the next ahead of it: its inputs are copied to the device, and it begins there without
    /// waiting for this process, while the answer of the first is handed out.
    OneAhead,
}

/// A batch that was started.
pub enum Started {
    /// The batch has run; its answer is here.
    Done(Answer),
    /// The batch is queued on a device, and its answer follows.
    Pending(Box<dyn Pending>),
}

/// A batch that a device works on. Any thread may wait for it; dropping it forgets the answer.
pub trait Pending: Send {
    /// Waits for the device.
    ///
    /// # Errors
    /// [`ModelError`] fails the whole batch.
    fn finish(self: Box<Self>) -> Result<Answer, ModelError>;
}

impl Started {
    /// Waits for the device, unless the batch has ended.
    ///
    /// # Errors
    /// As [`Pending::finish`].
    pub fn finish(self) -> Result<Answer, ModelError> {
        match self {
            Self::Done(answer) => Ok(answer),
            Self::Pending(batch) => batch.finish(),
        }
    }
}

/// A model version's files and configuration.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ModelSource {
    /// Name of the model in the repository.
    pub name: String,
    /// Number of its version directory.
    pub version: u64,
    /// The model file, or the directory for backends without one.
    pub path: PathBuf,
    /// Configured inputs, without batch dimension; empty where none are configured.
    pub inputs: Vec<TensorConfig>,
    /// Outputs, with the same rules as `inputs`.
    pub outputs: Vec<TensorConfig>,
    /// 0 for a model without batch dimension; `None` where it is not configured, so that the backend may find out.
    pub max_batch_size: Option<usize>,
    /// `parameters` of the configuration: key to string value.
    pub parameters: std::collections::BTreeMap<String, String>,
    /// Libraries of operators that the model calls, to be opened before it.
    pub op_libraries: Vec<PathBuf>,
    /// Devices of its instances.
    pub devices: Vec<Device>,
    /// The inputs of a request that the model answers, if one lies beside it. Serialised without it.
    #[serde(skip)]
    pub example: Option<Vec<Tensor>>,
    /// The padding buckets of the configuration, ascending; empty where requests are not padded.
    pub buckets: Vec<usize>,
    /// Handling of a configuration that contradicts the model.
    pub warm_up_failures: WarmUpFailures,
}

/// One tensor of a model's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorConfig {
    /// Name of the input or output.
    pub name: String,
    /// Type of its elements.
    #[serde(with = "datatype_name")]
    pub datatype: DataType,
    /// Shape that clients send, without batch dimension; -1 is any size.
    pub dims: Vec<i64>,
    /// Shape that the model takes in place of `dims`, where `reshape` is configured.
    pub reshape: Option<Vec<i64>>,
    /// Clients may leave it out (inputs only).
    pub optional: bool,
}

/// Inputs, outputs and batch size of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signature {
    /// Inputs, in the model's order.
    pub inputs: Vec<TensorConfig>,
    /// Outputs, in the model's order.
    pub outputs: Vec<TensorConfig>,
    /// The largest batch; 0 for a model whose tensors have no batch dimension.
    pub max_batch_size: usize,
    /// What requests may differ in from `inputs`.
    pub leeway: Leeway,
}

/// The difference that is allowed between a request's tensors and a signature, where the backend inferred it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Leeway {
    /// None: datatypes, ranks and fixed dimensions are as the signature says.
    #[default]
    None,
    /// One further dimension before those of the signature, in each input.
    OneLeadingDim,
    /// Further dimensions before those of the signature, equally many in each input.
    LeadingDims,
    /// Any rank, the same in each input; all dimensions of the signature are variable.
    AnyRank,
    /// Datatypes and shapes: what the signature says is a guess, and the model does not batch.
    Everything,
}

/// A device that runs instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Device {
    /// The processor of the machine.
    Cpu,
    /// The CUDA device of that index.
    Cuda(usize),
}

/// Requests gathered to run together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Sum of the requests' batch sizes; 1 for a model without batch dimension.
    pub rows: usize,
    /// The model's inputs in the signature's order; an optional one that no request has is absent.
    pub columns: Vec<Column>,
    /// One per request, in order.
    pub requests: Vec<RequestInfo>,
}

/// One input of a batch: the requests' data, still where each request brought it.
#[derive(Clone, Debug)]
pub struct Column {
    /// Name of the input.
    pub name: Arc<str>,
    /// Type of its elements.
    pub datatype: DataType,
    /// The batch tensor's shape as the model takes it: rows first, padded dims at their bucket.
    pub shape: Shape,
    /// One per request. Row-major; where its shape is smaller than the column's beyond the first
    /// dimension, the rest is `pad`.
    pub parts: Vec<Part>,
    /// The value padding has, as this column's datatype: integers and floats alike are cast from it.
    pub pad: f64,
}

/// One request's share of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Its shape as the model takes it, rows first.
    pub shape: Shape,
    /// Type of its elements: the input's, unless the signature is a guess.
    pub datatype: DataType,
    /// Its elements as the request sent them.
    pub data: bytes::Bytes,
}

/// A request's properties that a backend may use.
#[derive(Clone, Debug)]
pub struct RequestInfo {
    /// Its batch size in rows.
    pub rows: usize,
    /// Its parameters, the reserved ones left out.
    pub parameters: Arc<Parameters>,
}

/// The outputs of a batch.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The outputs in the signature's order, rows of all requests together. The engine cuts them up.
    pub outputs: Vec<Tensor>,
    /// Response parameters: none, or one per request.
    pub parameters: Vec<Parameters>,
    /// Time of each step.
    pub timing: Timing,
}

/// Time of a run by step; Triton's `compute_input`, `compute_infer` and `compute_output`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Gathering the parts into batch tensors, and copying those to the device.
    pub input: Duration,
    /// Running the model itself.
    pub infer: Duration,
    /// Copying outputs back and laying them out.
    pub output: Duration,
}

/// Datatypes by their V2 names.
mod datatype_name {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;
    use weir_protocol::DataType;

    pub(super) fn serialize<S: Serializer>(datatype: &DataType, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(datatype.name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<DataType, D::Error> {
        let name = String::deserialize(from)?;
        DataType::parse(&name).ok_or_else(|| D::Error::custom(format!("no datatype '{name}'")))
    }
}

impl TensorConfig {
    /// As metadata shows it: -1 first where the model batches.
    #[must_use]
    pub fn spec(&self, max_batch_size: usize) -> TensorSpec {
        let batch = (max_batch_size > 0).then_some(-1);
        TensorSpec {
            name: self.name.clone(),
            datatype: self.datatype,
            shape: batch.into_iter().chain(self.dims.iter().copied()).collect(),
        }
    }
}

/// The failure to load a model. The text goes to the index, the log and the client that asked.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is missing, unreadable or not a model.
    #[error("{0}")]
    File(String),
    /// Configuration and model disagree, or the configuration asks for what we do not do.
    #[error("{0}")]
    Config(String),
    /// The device is absent, unusable or full.
    #[error("{0}")]
    Device(String),
    /// A warm-up run failed.
    #[error("{0}")]
    Warmup(String),
}

/// The failure of a batch.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The model raised; the text is the library's.
    #[error("{0}")]
    Failed(String),
    /// The device had no memory left for a batch of this size.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
}

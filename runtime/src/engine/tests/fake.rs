//! A model whose runs call a closure, and helpers for tests of its engine.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::backend::{
    Affinity, Batch, BatchOutput, Device, Instance, LoadError, Model, ModelError, RequestTensor, ShapeTolerance,
    Signature, TensorConfig, Timing, WarmUp, WarmUpInput,
};
use crate::engine::{Engine, EngineSpec, Inferred, Sample, WarmUpPlan};
use crate::error::ServeError;
use crate::incoming::shared_memory::SharedMemory;
use crate::model::interface::Interface;
use crate::model::padding::Padding;
use bytes::Bytes;
use parking_lot::Mutex;
use weir_batcher::Policy;
use weir_protocol::{DataType, Delivery, InferRequest, Input, Parameters, Shape, Source, Tensor};
use weir_serve::byte_budget::ByteBudget;

/// The function that a run calls.
pub(crate) type Script = Arc<dyn Fn(&Batch) -> Result<BatchOutput, ModelError> + Send + Sync>;

/// Timeout that is longer than any test needs on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A model that records the rows of its runs in order.
pub(crate) struct Fake {
    pub(crate) signature: Signature,
    pub(crate) script: Script,
    pub(crate) runs: Arc<Mutex<Vec<usize>>>,
    pub(crate) affinity: Affinity,
}

struct FakeInstance {
    script: Script,
    affinity: Affinity,
    runs: Arc<Mutex<Vec<usize>>>,
}

impl Fake {
    /// A model with `y = script(x)` for INT32 rows of one element.
    pub(crate) fn new(script: impl Fn(&Batch) -> Result<BatchOutput, ModelError> + Send + Sync + 'static) -> Self {
        Self {
            signature: Signature {
                inputs: vec![tensor("x", &[1])],
                outputs: vec![tensor("y", &[1])],
                max_batch_size: 8,
                tolerance: ShapeTolerance::None,
            },
            script: Arc::new(script),
            runs: Arc::default(),
            affinity: Affinity::Thread,
        }
    }

    /// A model that adds one, whose runs wait for the blocker.
    pub(crate) fn blocking() -> (Blocker, Self) {
        let (blocker, pass) = Blocker::new();
        let fake = Self::new(move |batch| {
            pass(batch.rows);
            add_one(batch)
        });
        (blocker, fake)
    }

    pub(crate) fn start(self, change: impl FnOnce(&mut EngineSpec)) -> Running {
        let runs = Arc::clone(&self.runs);
        let engine = self.try_start(change).unwrap();
        Running { engine: Arc::new(engine), runs }
    }

    pub(crate) fn try_start(self, change: impl FnOnce(&mut EngineSpec)) -> Result<Engine, LoadError> {
        let mut spec = self.spec();
        change(&mut spec);
        let model: Arc<dyn Model> = Arc::new(self);
        Engine::start(spec, &model)
    }

    /// Starts an engine with instances of `make` in place of those that run the script.
    pub(crate) fn start_instances(
        self,
        make: impl Fn() -> Result<Box<dyn Instance>, LoadError> + Send + Sync + 'static,
    ) -> Result<Running, LoadError> {
        let spec = self.spec();
        let model: Arc<dyn Model> = Arc::new(WithInstances { signature: self.signature, make });
        Ok(Running { engine: Arc::new(Engine::start(spec, &model)?), runs: self.runs })
    }

    fn spec(&self) -> EngineSpec {
        EngineSpec {
            interface: Interface { model: "m".to_owned(), signature: self.signature.clone(), padding: None },
            version: 1,
            policy: Policy::new(self.signature.max_batch_size),
            devices: vec![Device::Cpu],
            labels: vec![Vec::new()],
            warm_up: WarmUpPlan { samples: Vec::new(), sizes: WarmUp::Needless, budget: Duration::ZERO },
        }
    }
}

/// A model whose instances a function makes.
struct WithInstances<F> {
    signature: Signature,
    make: F,
}

impl<F: Fn() -> Result<Box<dyn Instance>, LoadError> + Send + Sync> Model for WithInstances<F> {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self, _: Device) -> Result<Box<dyn Instance>, LoadError> {
        (self.make)()
    }
}

impl Model for Fake {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self, _: Device) -> Result<Box<dyn Instance>, LoadError> {
        Ok(Box::new(FakeInstance {
            script: Arc::clone(&self.script),
            runs: Arc::clone(&self.runs),
            affinity: self.affinity,
        }))
    }
}

impl Instance for FakeInstance {
    fn run(&mut self, batch: &Batch) -> Result<BatchOutput, ModelError> {
        self.runs.lock().push(batch.rows);
        (self.script)(batch)
    }

    fn affinity(&self) -> Affinity {
        self.affinity
    }
}

/// An engine under test.
#[derive(Clone)]
pub(crate) struct Running {
    pub(crate) engine: Arc<Engine>,
    pub(crate) runs: Arc<Mutex<Vec<usize>>>,
}

impl Running {
    pub(crate) async fn infer(&self, request: InferRequest) -> Result<Inferred, ServeError> {
        self.infer_by(request, None).await
    }

    pub(crate) async fn infer_by(
        &self,
        request: InferRequest,
        deadline: Option<Instant>,
    ) -> Result<Inferred, ServeError> {
        let memory = SharedMemory::new(None, ByteBudget::default());
        self.engine.infer(request, deadline, &memory).await
    }

    /// Sends a request for `x` in a separate task.
    pub(crate) fn ask(&self, x: i32) -> tokio::task::JoinHandle<Result<Vec<i32>, ServeError>> {
        let this = self.clone();
        tokio::spawn(async move { this.infer(request(&[x])).await.map(|got| values(&got)) })
    }

    /// Waits until this many requests are queued.
    pub(crate) async fn queued(&self, count: u64) {
        self.until(|running| running.engine.snapshot().pending == count).await;
    }

    pub(crate) async fn until(&self, reached: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !reached(self) {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(TIMEOUT, waiting).await.unwrap();
    }
}

/// Blocks runs until the test releases them.
pub(crate) struct Blocker {
    entered: Receiver<usize>,
    open: SyncSender<()>,
}

impl Blocker {
    /// Returns the blocker, and the function that a script calls with its number of rows.
    pub(crate) fn new() -> (Self, impl Fn(usize) + Send + Sync + 'static) {
        let (enter, entered) = sync_channel(64);
        let (open, opened) = sync_channel(64);
        let opened = Mutex::new(opened);
        let pass = move |rows| {
            // After the end of the test, the channels are closed and runs are not blocked.
            let _ = enter.send(rows);
            let _ = opened.lock().recv();
        };
        (Self { entered, open }, pass)
    }

    /// Waits for a run to begin, and returns its rows.
    pub(crate) fn entered(&self) -> usize {
        self.entered.recv_timeout(TIMEOUT).unwrap()
    }

    /// Releases one blocked run.
    pub(crate) fn open(&self) {
        self.open.send(()).unwrap();
    }
}

pub(crate) fn tensor(name: &str, dims: &[i64]) -> TensorConfig {
    TensorConfig::new(name, DataType::Int32, dims)
}

/// Builds a request for these rows of `x`.
pub(crate) fn request(rows: &[i32]) -> InferRequest {
    request_of(&[("x", &[rows.len() as i64, 1], rows)])
}

pub(crate) fn request_of(inputs: &[(&str, &[i64], &[i32])]) -> InferRequest {
    let input = |&(name, shape, values): &(&str, &[i64], &[i32])| Input {
        name: name.to_owned(),
        datatype: DataType::Int32,
        shape: Shape::new(shape).unwrap(),
        source: Source::Inline(bytes(values)),
    };
    InferRequest {
        model: "m".to_owned(),
        version: String::new(),
        id: String::new(),
        parameters: Parameters::new(),
        inputs: inputs.iter().map(input).collect(),
        outputs: Vec::new(),
        default_delivery: Delivery::Json,
    }
}

fn bytes(values: &[i32]) -> Bytes {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>().into()
}

pub(crate) fn numbers(data: &[u8]) -> Vec<i32> {
    let (chunks, rest) = data.as_chunks::<4>();
    assert!(rest.is_empty());
    chunks.iter().copied().map(i32::from_le_bytes).collect()
}

/// Returns the values of the first output.
pub(crate) fn values(inferred: &Inferred) -> Vec<i32> {
    numbers(inferred.response.outputs[0].0.data())
}

/// Returns every value of column `x`, as the requests sent it.
pub(crate) fn inputs(batch: &Batch) -> Vec<i32> {
    let parts = batch.columns[0].parts.iter();
    parts.flat_map(|part| numbers(&part.data)).collect()
}

pub(crate) fn answer(shape: &[i64], values: &[i32]) -> BatchOutput {
    let shape = Shape::new(shape).unwrap();
    let y = Tensor::new("y".to_owned(), DataType::Int32, shape, bytes(values)).unwrap();
    BatchOutput { outputs: vec![y], parameters: Vec::new(), timing: Timing::default() }
}

/// A script that computes `y = x + 1`.
pub(crate) fn add_one(batch: &Batch) -> Result<BatchOutput, ModelError> {
    let values: Vec<i32> = inputs(batch).iter().map(|x| x + 1).collect();
    Ok(answer(&[batch.rows as i64, 1], &values))
}

pub(crate) fn padding(buckets: &[usize], pad: f64) -> Padding {
    Padding { buckets: buckets.to_vec(), values: [("x".to_owned(), pad)].into() }
}

/// Lets the engine warm up with `x = 0`, in batches of up to this many rows.
pub(crate) fn warm_up(spec: &mut EngineSpec, most_rows: usize) {
    let row = RequestTensor { shape: Shape::new(&[1]).unwrap(), datatype: DataType::Int32, data: bytes(&[0]) };
    spec.warm_up.sizes = WarmUp::On(Arc::new([WarmUpInput { length: None, row: vec![Some(row)], most_rows }]));
    spec.warm_up.budget = Duration::from_secs(20);
}

/// A warm-up sample with one row of `x`.
pub(crate) fn sample(interface: &Interface, x: i32) -> Sample {
    let accepted = interface.accept(request(&[x]), &SharedMemory::new(None, ByteBudget::default())).unwrap();
    Sample { name: "first".to_owned(), count: 2, job: Arc::new(accepted.job) }
}

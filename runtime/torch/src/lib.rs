//! The backends of model libraries, which turn TorchScript files, programs of torch.export and ONNX files into
//! [`Model`](weir_runtime::backend::Model)s. ONNX models run on onnxruntime (crate `weir-onnx`) and share everything else:
//! trials, inference of signatures, batching, warm-up.
//!
//! ```text
//!   model.pt ──file──► sandbox (a child process: infer, independence, warm_up) ──verdict──► signature, warm-up inputs
//!            └───────► module (weights, shared unless it writes to them) ──binding──► plan
//!   Batch ──gather──► tensors ──runner──► forward ──instance──► BatchOutput
//! ```
//!
//! libtorch is called only through the C++ shim in `shim/`. A request's bytes are copied once, into the batch tensor,
//! or not at all if the batch is a single request. Outputs are returned from the memory that libtorch wrote them to.
//! For a GPU the batch tensor is in page-locked memory, from which the device copies asynchronously while it runs the
//! previous batch (`in_flight`).

mod execution;
mod libtorch;
mod loading;
mod memory;
mod model;
mod module;
mod onnx_backend;
mod peak_memory;
mod remote;
mod settings;
mod staged_inputs;
mod startup;
mod stopwatch;

pub use libtorch::cuda::find_gpus;
pub use libtorch::gpu_meter::read_gpus;
pub use model::TorchBackend;
pub use onnx_backend::OnnxBackend;
pub use remote::open_remote;
pub use startup::{HEAP_GROWTH, MMAP_THRESHOLD, TRIM_THRESHOLD};

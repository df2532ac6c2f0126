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

mod binding;
mod complaints;
mod cuda;
mod cuda_streams;
mod element;
mod examine;
mod fault;
mod ffi;
mod file;
mod gather;
mod gpu_meter;
pub mod heap_limits;
mod in_flight;
mod infer;
mod inspect;
mod instance;
mod memory;
mod model;
mod module;
mod onnx_backend;
mod op_libraries;
mod optimize;
mod outputs;
mod peak_memory;
mod plan;
mod positional_names;
mod process;
mod remark;
mod remote;
mod runner;
mod sandbox;
mod settings;
mod staged_inputs;
mod stamp;
mod startup;
mod stopwatch;
mod stream;
mod tensor;
mod unguarded;
mod warm_up;
mod weights;

pub use cuda::find_gpus;
pub use gpu_meter::read_gpus;
pub use model::TorchBackend;
pub use onnx_backend::OnnxBackend;
pub use remote::open_remote;

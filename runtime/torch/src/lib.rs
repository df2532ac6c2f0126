//! The libtorch backend: TorchScript files become [`Model`](weir_runtime::backend::Model)s.
//!
//! ```text
//!   model.pt ──file──► module (weights, once per device) ──infer / binding──► plan (signature)
//!   Batch ──gather──► tensors ──runner──► forward ──instance──► Answer
//! ```
//!
//! libtorch is reached through the C++ shim in `shim/` alone. A request's bytes are copied once, into
//! their place in the batch tensor, or not at all where one request is the batch; outputs are handed
//! on where libtorch wrote them. For a GPU that place is in page-locked memory, from where the device copies
//! by itself while it runs the batch before (`flight`).

mod binding;
mod cuda;
mod cuda_lanes;
mod element;
mod fault;
mod ffi;
mod file;
mod flight;
mod gather;
mod high_water;
mod infer;
mod instance;
mod layout;
mod memory;
mod model;
mod module;
mod process;
mod runner;
mod settings;
mod startup;
mod stopwatch;
mod stream;
mod tensor;

pub use cuda::find_gpus;
pub use model::TorchBackend;

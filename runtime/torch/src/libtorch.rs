//! libtorch as seen from Rust: its C functions, tensors, streams and devices, and the faults that it reports.

pub(crate) mod captures;
pub(crate) mod cuda;
pub(crate) mod element;
pub(crate) mod fault;
pub(crate) mod ffi;
pub(crate) mod gather;
pub(crate) mod gpu_meter;
pub(crate) mod graph;
pub(crate) mod in_flight;
pub(crate) mod op_libraries;
pub(crate) mod process;
pub(crate) mod stream;
pub(crate) mod tensor;

//! ONNX models on onnxruntime's own C library, which is opened when the first model is loaded. Nothing is linked with
//! it, so a program without the library runs, and only ONNX models fail to load.
//!
//! ```text
//!   model.onnx ──Session::load──► inputs, outputs (names, datatypes, dimensions)
//!   request's bytes ──Value──► Session::run ──► Values ──► bytes
//! ```
//!
//! The structures of the C interface come from the crate `ort-sys`. The crate `ort` above it is not used: its tensors
//! are generic over Rust's element types, whereas a request's bytes have a datatype only at run time.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "tests fail by panicking"))]

mod element;
mod error;
mod library;
mod session;
mod signature;
mod value;

pub use error::OnnxError;
pub use session::Session;
pub use signature::{Dimension, TensorInfo, UnservableOutput};
pub use value::Value;

//! The V2 (Open Inference) protocol: types, codecs for JSON, binary data and protobuf, and the one table that maps
//! failure causes to HTTP and gRPC statuses.
//!
//! ```text
//!   socket bytes ──► rest::decode / grpc::decode ──► InferRequest
//!   InferResponse ──► rest::encode / grpc::encode ──► socket bytes
//! ```
//!
//! Tensor data is never turned into a tree: it stays in the `Bytes` in which it arrived, or is parsed from JSON text
//! straight into one typed buffer. Nothing here reads a clock, a file or a socket.

mod classification;
mod control;
mod datatype;
pub mod grpc;
mod infer;
mod json;
pub mod rest;
mod shape;
mod shortened;
mod status;
mod tensor;

pub use classification::{ClassificationError, classification};
pub use control::{is_control, is_control_without_model};
pub use datatype::DataType;
pub use infer::{
    Delivery, InferRequest, InferResponse, Input, Parameter, Parameters, RequestedOutput, SharedRange, Source,
};
pub use shape::{Batching, Shape, ShapeError};
pub use shortened::shortened;
pub use status::{Blame, Code, Coded, blame_for_client_deadline};
pub use tensor::{Tensor, TensorError, TensorSpec};

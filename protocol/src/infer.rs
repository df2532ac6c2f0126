//! An inference request and its response, independent of HTTP and gRPC.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use bytes::Bytes;

use crate::{DataType, Shape, Tensor};

/// A decoded inference request. Shared memory has not been read yet, and nothing has been compared with the model's
/// signature.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    /// Name of the model to run.
    pub model: String,
    /// Requested version, in decimal; empty means the newest.
    pub version: String,
    /// The client's request id, which the response repeats; empty if the client sent none.
    pub id: String,
    /// Request parameters, including reserved ones (`priority`, `timeout`, …).
    pub parameters: Parameters,
    /// Inputs in the order of the request.
    pub inputs: Vec<Input>,
    /// Requested outputs in the order of the request; empty means all outputs.
    pub outputs: Vec<RequestedOutput>,
    /// Delivery of all outputs if `outputs` is empty.
    pub default_delivery: Delivery,
}

/// An input tensor whose data has not been compared with its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Name in the model's signature.
    pub name: String,
    /// Datatype of the elements.
    pub datatype: DataType,
    /// Dimensions, including the batch dimension.
    pub shape: Shape,
    /// Data of the input, or the shared memory that holds it.
    pub source: Source,
}

/// Location of an input's data.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Bytes of the request in row-major order, little-endian, not yet compared with the shape.
    Inline(Bytes),
    /// A range of a registered shared-memory region.
    Shared(SharedRange),
}

/// A range of a registered shared-memory region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// Name under which the region is registered.
    pub region: String,
    /// Offset from the start of the region, in bytes.
    pub offset: u64,
    /// Bytes to read, or the maximum to write.
    pub size: u64,
}

/// An output that a request selects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Name in the model's signature.
    pub name: String,
    /// Encoding or location of the output's data in the response.
    pub delivery: Delivery,
    /// Number of best classes to return instead of the tensor; `None` returns the tensor.
    pub classes: Option<NonZeroUsize>,
}

/// Way in which an output's data reaches the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// JSON numbers (HTTP only).
    #[default]
    Json,
    /// Raw bytes: after the JSON, or in `raw_output_contents`.
    Binary,
    /// Bytes written to a shared-memory region.
    Shared(SharedRange),
}

/// The value of a request or response parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// A JSON boolean or a `bool_param`.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// An unsigned integer that does not fit an `i64`, or that was sent as unsigned.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string in UTF-8.
    String(String),
}

/// Parameters by name, sorted so that they are encoded in a deterministic order.
pub type Parameters = BTreeMap<String, Parameter>;

/// An inference response, before it is encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct InferResponse {
    /// Name of the model that ran.
    pub model: String,
    /// Version that ran, in decimal.
    pub version: String,
    /// Id of the request; empty if it had none.
    pub id: String,
    /// Parameters of the response.
    pub parameters: Parameters,
    /// Outputs with their delivery. An output in shared memory has already been written there; its tensor still
    /// provides datatype, shape and size.
    pub outputs: Vec<(Tensor, Delivery)>,
}

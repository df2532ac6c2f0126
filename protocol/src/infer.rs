//! An inference request and its response, independent of HTTP and gRPC.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use bytes::Bytes;

use crate::{DataType, Shape, Tensor};

/// A decoded inference request. Data in shared memory is not read yet, and nothing has been compared
/// with the model's signature.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    /// Name of the model to run.
    pub model: String,
    /// Requested version, in decimal; empty means the newest.
    pub version: String,
    /// The client's request id, echoed in the response; empty when there was none.
    pub id: String,
    /// Request parameters, reserved ones (`priority`, `timeout`, …) included.
    pub parameters: Parameters,
    /// The inputs in the order given.
    pub inputs: Vec<Input>,
    /// Requested outputs in the order given; none means all.
    pub outputs: Vec<RequestedOutput>,
    /// Delivery of all outputs when `outputs` is empty.
    pub default_delivery: Delivery,
}

/// An input tensor, not yet checked against its shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Name in the model's signature.
    pub name: String,
    /// Type of its elements.
    pub datatype: DataType,
    /// Dimensions, the batch dimension included.
    pub shape: Shape,
    /// The data, or the shared memory that holds it.
    pub source: Source,
}

/// The location of an input's data.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// Bytes of the request: row-major, little-endian. Their count is not yet checked against the shape.
    Inline(Bytes),
    /// A range of a registered shared-memory region.
    Shared(SharedRange),
}

/// A range of a registered shared-memory region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// Name the region is registered under.
    pub region: String,
    /// Offset from the region's start, in bytes.
    pub offset: u64,
    /// Bytes to read or at most to write.
    pub size: u64,
}

/// An output that a request lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// Name in the model's signature.
    pub name: String,
    /// Encoding or location of its data in the response.
    pub delivery: Delivery,
    /// Number of best classes to return instead of the tensor.
    pub classes: Option<NonZeroUsize>,
}

/// The way an output's data is delivered to the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// JSON numbers (HTTP only).
    #[default]
    Json,
    /// Raw bytes: after the JSON header, or in `raw_output_contents`.
    Binary,
    /// Written into a shared-memory region.
    Shared(SharedRange),
}

/// The value of a request or response parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// A JSON boolean or a `bool_param`.
    Bool(bool),
    /// A signed 64-bit integer.
    Int(i64),
    /// An unsigned integer, where it does not fit an `i64` or was sent as one.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// A string of UTF-8.
    String(String),
}

/// Named parameters; sorted, so that what is written is deterministic.
pub type Parameters = BTreeMap<String, Parameter>;

/// An inference response, before it is encoded.
#[derive(Clone, Debug, PartialEq)]
pub struct InferResponse {
    /// Name of the model that ran.
    pub model: String,
    /// Version that ran, in decimal.
    pub version: String,
    /// The request's id; empty when it had none.
    pub id: String,
    /// Parameters of the response.
    pub parameters: Parameters,
    /// Outputs with their delivery. One delivered in shared memory has been written there already; its
    /// tensor still gives datatype, shape and size.
    pub outputs: Vec<(Tensor, Delivery)>,
}

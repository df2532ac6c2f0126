//! One inference, as both wires mean it.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use bytes::Bytes;

use crate::{DataType, Shape, Tensor};

/// What a client asks. Data that lies in shared memory is still to be read, and nothing has been
/// compared with the model's signature yet.
#[derive(Clone, Debug, PartialEq)]
pub struct InferRequest {
    /// The model's name.
    pub model: String,
    /// The version asked for, in decimal; empty means the newest.
    pub version: String,
    /// The client's own identification, echoed; empty when there was none.
    pub id: String,
    /// Request parameters, reserved ones (`priority`, `timeout`, …) included.
    pub parameters: Parameters,
    /// The inputs in the order given.
    pub inputs: Vec<Input>,
    /// The outputs asked for in that order; none means all.
    pub outputs: Vec<RequestedOutput>,
    /// How outputs travel when `outputs` is empty.
    pub default_delivery: Delivery,
}

/// One input as it arrived.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub datatype: DataType,
    /// Its dimensions.
    pub shape: Shape,
    /// Its data or where that lies.
    pub source: Source,
}

/// Where an input's data is.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// In the request: row-major, little-endian. Its length is not yet checked against the shape.
    Inline(Bytes),
    /// In a registered shared-memory region.
    Shared(SharedRange),
}

/// A range of a registered shared-memory region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// The region's registered name.
    pub region: String,
    /// Bytes from the region's start.
    pub offset: u64,
    /// Bytes to read or at most to write.
    pub size: u64,
}

/// An output asked for by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedOutput {
    /// The output's name.
    pub name: String,
    /// How its data is to travel.
    pub delivery: Delivery,
    /// Return the best `n` classes instead of the tensor.
    pub classes: Option<NonZeroUsize>,
}

/// How an output's data travels back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// As JSON numbers (HTTP only).
    #[default]
    Json,
    /// As raw bytes: after the JSON header, or in `raw_output_contents`.
    Binary,
    /// Written into a shared-memory region.
    Shared(SharedRange),
}

/// The value of a request or response parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameter {
    /// `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer, where it does not fit an `i64` or was sent as one.
    Uint(u64),
    /// A floating point number.
    Double(f64),
    /// Text.
    String(String),
}

/// Named parameters; sorted, so that what is written is deterministic.
pub type Parameters = BTreeMap<String, Parameter>;

/// What the model answered.
#[derive(Clone, Debug, PartialEq)]
pub struct InferResponse {
    /// The model's name.
    pub model: String,
    /// The version that answered, in decimal.
    pub version: String,
    /// The request's id; empty when it had none.
    pub id: String,
    /// Response parameters.
    pub parameters: Parameters,
    /// The outputs, each with how it is to travel. What travels in shared memory has been written
    /// there already; its tensor still gives datatype, shape and size.
    pub outputs: Vec<(Tensor, Delivery)>,
}

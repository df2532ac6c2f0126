//! Errors of HTTP bodies, with Triton's messages where Triton has one.

use crate::json::JsonError;
use crate::{Code, Coded, DataType, ShapeError};

/// Error of a body that cannot be decoded, or of a response that cannot be encoded as the client requested.
#[expect(missing_docs, reason = "most fields are explained by the variant's message")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// The text is not JSON.
    #[error("failed to parse the request JSON buffer: {message} at {offset}")]
    Syntax {
        /// Message of RapidJSON, Triton's parser.
        message: &'static str,
        /// Offset in bytes from the start of the JSON.
        offset: usize,
    },
    /// Arrays and objects are nested too deep.
    #[error("JSON nesting depth exceeds maximum allowed limit (100)")]
    TooDeep,
    /// A field is missing or has the wrong JSON type.
    #[error("Unable to parse '{field}': {reason}")]
    Field { field: String, reason: String },
    /// An object has the same key twice.
    #[error("duplicate key '{key}' in {object}")]
    DuplicateKey { key: String, object: &'static str },
    /// `Inference-Header-Content-Length` is not a number.
    #[error("Unable to parse Inference-Header-Content-Length, got: {value}")]
    HeaderLength { value: String },
    /// `Inference-Header-Content-Length` does not fit 32 bits.
    #[error(
        "Unable to parse Inference-Header-Content-Length, value is out of range [ {}, {} ], got: {value}",
        i32::MIN,
        i32::MAX
    )]
    HeaderLengthRange { value: String },
    /// `Inference-Header-Content-Length` is negative or exceeds the body's length.
    #[error("inference header size should be in range (0, {body}), got: {value}")]
    HeaderLengthBody { body: usize, value: String },
    /// The body ends within the JSON.
    #[error("unexpected size for request JSON, expecting {missing} more bytes")]
    ShortJson { missing: usize },
    /// The JSON is larger than [`Limits::max_json`](super::Limits::max_json).
    #[error(
        "request JSON size of {size} bytes exceeds the maximum allowed input size of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    JsonTooLarge { size: usize, limit: usize },
    /// A tensor in JSON takes more bytes than [`Limits::max_json`](super::Limits::max_json).
    #[error(
        "JSON input '{input}' has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    DataTooLarge { input: String, size: usize, limit: usize },
    /// A raw body is larger than [`Limits::max_json`](super::Limits::max_json).
    #[error(
        "Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    RawTooLarge { size: usize, limit: usize },
    /// There are more inputs or outputs than [`Limits::max_tensors`](super::Limits::max_tensors).
    #[error("request has more than {limit} {list}")]
    TooMany { list: &'static str, limit: usize },
    /// A shape has too many dimensions.
    #[error("shape of input '{input}' has more than {limit} dimensions")]
    TooManyDims { input: String, limit: usize },
    /// A dimension does not fit 63 bits.
    #[error("invalid shape for input '{input}': shape {shape} contains one or more invalid dimensions")]
    InvalidDims { input: String, shape: String },
    /// The product of the dimensions exceeds the limit on elements.
    #[error(
        "invalid shape for input '{input}': shape {shape} causes total element count to exceed maximum size of {limit}"
    )]
    ElementOverflow { input: String, shape: String, limit: u64 },
    /// The number of elements times the element size overflows.
    #[error(
        "byte size overflow for input '{input}': element count ({elements}) * data type size ({size}) exceeds maximum allowed size ({})",
        i64::MAX
    )]
    ByteOverflow { input: String, elements: u64, size: usize },
    /// The datatype is not defined by V2.
    #[error("invalid datatype '{datatype}' for input {input}")]
    Datatype { input: String, datatype: String },
    /// The number of scalars differs from the shape's number of elements.
    #[error("Unable to parse 'data': Shape does not match true shape of 'data' field for input '{input}'")]
    DataCount { input: String },
    /// The data is nested, but not by the input's shape.
    #[error(
        "Unable to parse 'data': its nesting contradicts the shape of input '{input}'; nest it by the shape, or send it flat"
    )]
    DataNesting { input: String },
    /// A scalar does not have the input's datatype.
    #[error("Unable to parse '{field}': {reason} for input '{input}'")]
    Element {
        /// JSON member that contains the data: `data`, or the input's name in the generate extension and V1.
        field: String,
        /// Message of Triton's JSON library.
        reason: &'static str,
        input: String,
    },
    /// The datatype cannot hold the number.
    #[error("Unable to parse '{field}': {value} is out of range for {datatype} input '{input}'")]
    OutOfRange {
        /// JSON member that contains the data.
        field: String,
        /// Number as the client wrote it.
        value: String,
        datatype: DataType,
        input: String,
    },
    /// An input in half precision is sent as JSON.
    #[error("receiving {datatype} data via JSON is not supported. Please use the binary data format for input {input}")]
    HalfInput { datatype: DataType, input: String },
    /// An input has no source of data, or several.
    #[error(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But {found}"
    )]
    DataSource {
        /// The words `no field is set`, or `set` followed by the fields.
        found: String,
    },
    /// An output is requested in shared memory and in another encoding.
    #[error("Output can't set both 'shared_memory_region' and '{other}'")]
    OutputConflict { other: &'static str },
    /// There are fewer bytes after the JSON than announced.
    #[error("unexpected size for input '{input}', expecting {missing} additional bytes for model '{model}'")]
    ShortInput { input: String, missing: usize, model: String },
    /// There are more bytes after the JSON than announced.
    #[error("unexpected additional input data for model '{model}'")]
    SurplusInput { model: String },
    /// Two inputs have the same name.
    #[error("input '{name}' already exists in request")]
    DuplicateInput { name: String },
    /// Two outputs have the same name.
    #[error("output '{name}' already exists in request")]
    DuplicateOutput { name: String },
    /// A parameter is an array, an object or null.
    #[error("parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'.")]
    ParameterType { key: String },
    /// A parameter's key has the prefix `triton_`, which is reserved for the server.
    #[error("parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.")]
    ReservedParameter,
    /// A raw body was sent to a model that does not have exactly one input.
    #[error(
        "Raw request must only have 1 input (found 1) to be deduced but got {count} inputs in '{model}' model configuration"
    )]
    RawInputs { count: usize, model: String },
    /// A raw body was sent to an input with several variable dimensions.
    #[error(
        "The shape of the raw input '{input}' can not be deduced because there are more than one variable-sized dimension"
    )]
    RawShape { input: String },
    /// A raw body was sent to a BYTES input that does not have exactly one element.
    #[error("For BYTE datatype raw input '{input}', the model must have input shape [1]")]
    RawBytes { input: String },
    /// The data does not fill the input's dimensions.
    #[error("The schema can not convert input '{input}' to tensor with proper shape")]
    UnfittingShape { input: String },
    /// A V1 body is invalid.
    #[error("{0}")]
    Predict(String),
    /// A repository request has an invalid parameter.
    #[error("{0}")]
    Repository(String),
    /// An output in half precision is requested as JSON.
    #[error("sending {datatype} data via JSON is not supported. Please use the binary data format for output {output}")]
    HalfOutput { datatype: DataType, output: String },
    /// Strings that are not UTF-8 are requested as JSON; Triton writes an invalid document instead.
    #[error(
        "output '{output}' holds bytes that are not UTF-8 and cannot be sent as JSON. Please use the binary data format for output {output}"
    )]
    NotUtf8 { output: String },
    /// An output cannot be written as rows.
    #[error("output '{output}' of shape {shape} cannot be written as rows of 'predictions'")]
    Rows { output: String, shape: String },
    /// The dimensions do not make a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl RestError {
    /// Converts an error of the reader that occurred while reading `field`.
    pub(super) fn from_json(field: &str, error: &JsonError) -> Self {
        match error {
            JsonError::Syntax { message, offset } => Self::Syntax { message, offset: *offset },
            JsonError::TooDeep => Self::TooDeep,
            JsonError::Mismatch(expected) => Self::field(field, expected.reason()),
            JsonError::OutOfRange(_) => Self::field(field, "number is out of range"),
        }
    }

    /// Returns the error of a missing required field.
    pub(super) fn missing(field: &str) -> Self {
        let reason = format!("attempt to access non-existing object member '{field}'");
        Self::field(field, reason)
    }

    /// Returns the error of a field with an invalid value.
    pub(super) fn field(field: &str, reason: impl Into<String>) -> Self {
        Self::Field { field: field.to_owned(), reason: reason.into() }
    }
}

/// Adds the name of the field to a reader's error.
pub(super) trait InField<T> {
    /// Converts the error to one that names `field`.
    fn field(self, field: &str) -> Result<T, RestError>;
}

impl<T> InField<T> for Result<T, JsonError> {
    fn field(self, field: &str) -> Result<T, RestError> {
        self.map_err(|error| RestError::from_json(field, &error))
    }
}

impl Coded for RestError {
    fn code(&self) -> Code {
        match self {
            Self::Syntax { .. }
            | Self::TooDeep
            | Self::Field { .. }
            | Self::DuplicateKey { .. }
            | Self::HeaderLength { .. }
            | Self::HeaderLengthRange { .. }
            | Self::HeaderLengthBody { .. }
            | Self::ShortJson { .. }
            | Self::JsonTooLarge { .. }
            | Self::DataTooLarge { .. }
            | Self::RawTooLarge { .. }
            | Self::TooMany { .. }
            | Self::TooManyDims { .. }
            | Self::InvalidDims { .. }
            | Self::ElementOverflow { .. }
            | Self::ByteOverflow { .. }
            | Self::Datatype { .. }
            | Self::DataCount { .. }
            | Self::DataNesting { .. }
            | Self::Element { .. }
            | Self::OutOfRange { .. }
            | Self::HalfInput { .. }
            | Self::DataSource { .. }
            | Self::OutputConflict { .. }
            | Self::ShortInput { .. }
            | Self::SurplusInput { .. }
            | Self::DuplicateInput { .. }
            | Self::DuplicateOutput { .. }
            | Self::ParameterType { .. }
            | Self::ReservedParameter
            | Self::RawInputs { .. }
            | Self::RawShape { .. }
            | Self::RawBytes { .. }
            | Self::UnfittingShape { .. }
            | Self::Predict(_)
            | Self::Repository(_)
            | Self::HalfOutput { .. }
            | Self::NotUtf8 { .. }
            | Self::Rows { .. }
            | Self::Shape(_) => Code::InvalidArgument,
        }
    }
}

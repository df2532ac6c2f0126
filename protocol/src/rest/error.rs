//! Errors of HTTP bodies, with Triton's messages where it has one.

use crate::json::JsonError;
use crate::{Code, Coded, DataType, ShapeError};

/// A body that cannot be decoded, or a response that cannot be encoded as the client asked.
#[expect(missing_docs, reason = "most fields are explained by the variant's message")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// Text that is not JSON.
    #[error("failed to parse the request JSON buffer: {message} at {offset}")]
    Syntax {
        /// Message of RapidJSON, Triton's parser.
        message: &'static str,
        /// Bytes from the start of the JSON.
        offset: usize,
    },
    /// Arrays and objects nested deeper than allowed.
    #[error("JSON nesting depth exceeds maximum allowed limit (100)")]
    TooDeep,
    /// A missing field, or one of another JSON type.
    #[error("Unable to parse '{field}': {reason}")]
    Field { field: String, reason: String },
    /// A key that one object has twice.
    #[error("duplicate key '{key}' in {object}")]
    DuplicateKey { key: String, object: &'static str },
    /// `Inference-Header-Content-Length` that is no number.
    #[error("Unable to parse Inference-Header-Content-Length, got: {value}")]
    HeaderLength { value: String },
    /// `Inference-Header-Content-Length` that does not fit 32 bits.
    #[error(
        "Unable to parse Inference-Header-Content-Length, value is out of range [ {}, {} ], got: {value}",
        i32::MIN,
        i32::MAX
    )]
    HeaderLengthRange { value: String },
    /// `Inference-Header-Content-Length` that is negative or longer than the body.
    #[error("inference header size should be in range (0, {body}), got: {value}")]
    HeaderLengthBody { body: usize, value: String },
    /// A body that ends within the JSON.
    #[error("unexpected size for request JSON, expecting {missing} more bytes")]
    ShortJson { missing: usize },
    /// JSON larger than [`Limits::max_json`](super::Limits::max_json).
    #[error(
        "request JSON size of {size} bytes exceeds the maximum allowed input size of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    JsonTooLarge { size: usize, limit: usize },
    /// A tensor in JSON that takes more bytes than [`Limits::max_json`](super::Limits::max_json).
    #[error(
        "JSON input '{input}' has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    DataTooLarge { input: String, size: usize, limit: usize },
    /// A raw body larger than [`Limits::max_json`](super::Limits::max_json).
    #[error(
        "Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    RawTooLarge { size: usize, limit: usize },
    /// More inputs or outputs than [`Limits::max_tensors`](super::Limits::max_tensors).
    #[error("request has more than {limit} {list}")]
    TooMany { list: &'static str, limit: usize },
    /// A shape of more dimensions than any tensor has.
    #[error("shape of input '{input}' has more than {limit} dimensions")]
    TooManyDims { input: String, limit: usize },
    /// A dimension beyond 63 bits.
    #[error("invalid shape for input '{input}': shape {shape} contains one or more invalid dimensions")]
    InvalidDims { input: String, shape: String },
    /// A product of dimensions over the limit on elements.
    #[error(
        "invalid shape for input '{input}': shape {shape} causes total element count to exceed maximum size of {limit}"
    )]
    ElementOverflow { input: String, shape: String, limit: u64 },
    /// An element count that overflows when multiplied by the element's size.
    #[error(
        "byte size overflow for input '{input}': element count ({elements}) * data type size ({size}) exceeds maximum allowed size ({})",
        i64::MAX
    )]
    ByteOverflow { input: String, elements: u64, size: usize },
    /// A datatype V2 does not have.
    #[error("invalid datatype '{datatype}' for input {input}")]
    Datatype { input: String, datatype: String },
    /// More or fewer scalars than the shape has elements.
    #[error("Unable to parse 'data': Shape does not match true shape of 'data' field for input '{input}'")]
    DataCount { input: String },
    /// Brackets that say another shape than the input's.
    #[error(
        "Unable to parse 'data': its nesting contradicts the shape of input '{input}'; nest it by the shape, or send it flat"
    )]
    DataNesting { input: String },
    /// A scalar that is not of the input's datatype.
    #[error("Unable to parse '{field}': {reason} for input '{input}'")]
    Element {
        /// Member that holds the data: `data`, or the input's name where that is the key.
        field: String,
        /// Message of Triton's JSON library.
        reason: &'static str,
        input: String,
    },
    /// A number that the datatype cannot hold.
    #[error("Unable to parse '{field}': {value} is out of range for {datatype} input '{input}'")]
    OutOfRange {
        /// Member that holds the data.
        field: String,
        /// Number as the client wrote it.
        value: String,
        datatype: DataType,
        input: String,
    },
    /// An input in half precision as JSON.
    #[error("receiving {datatype} data via JSON is not supported. Please use the binary data format for input {input}")]
    HalfInput { datatype: DataType, input: String },
    /// An input with no source of data, or with several.
    #[error(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But {found}"
    )]
    DataSource {
        /// The words `no field is set`, or `set` and the fields.
        found: String,
    },
    /// An output both in shared memory and in another encoding.
    #[error("Output can't set both 'shared_memory_region' and '{other}'")]
    OutputConflict { other: &'static str },
    /// Fewer bytes after the JSON than announced.
    #[error("unexpected size for input '{input}', expecting {missing} additional bytes for model '{model}'")]
    ShortInput { input: String, missing: usize, model: String },
    /// More bytes after the JSON than announced.
    #[error("unexpected additional input data for model '{model}'")]
    SurplusInput { model: String },
    /// Two inputs of one name.
    #[error("input '{name}' already exists in request")]
    DuplicateInput { name: String },
    /// Two outputs of one name.
    #[error("output '{name}' already exists in request")]
    DuplicateOutput { name: String },
    /// A parameter that is an array, an object or null.
    #[error("parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'.")]
    ParameterType { key: String },
    /// A parameter with a reserved prefix.
    #[error("parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified.")]
    ReservedParameter,
    /// A raw body for a model of several inputs.
    #[error(
        "Raw request must only have 1 input (found 1) to be deduced but got {count} inputs in '{model}' model configuration"
    )]
    RawInputs { count: usize, model: String },
    /// A raw body for an input with several variable dimensions.
    #[error(
        "The shape of the raw input '{input}' can not be deduced because there are more than one variable-sized dimension"
    )]
    RawShape { input: String },
    /// A raw body for a BYTES input of another shape than one element.
    #[error("For BYTE datatype raw input '{input}', the model must have input shape [1]")]
    RawBytes { input: String },
    /// Data that does not fill the input's dimensions.
    #[error("The schema can not convert input '{input}' to tensor with proper shape")]
    UnfittingShape { input: String },
    /// An invalid V1 body.
    #[error("{0}")]
    Predict(String),
    /// A repository request with an invalid parameter.
    #[error("{0}")]
    Repository(String),
    /// An output in half precision, requested as JSON.
    #[error("sending {datatype} data via JSON is not supported. Please use the binary data format for output {output}")]
    HalfOutput { datatype: DataType, output: String },
    /// Strings that are not UTF-8, requested as JSON. Triton writes a broken document instead.
    #[error(
        "output '{output}' holds bytes that are not UTF-8 and cannot be sent as JSON. Please use the binary data format for output {output}"
    )]
    NotUtf8 { output: String },
    /// An output that cannot be written as rows.
    #[error("output '{output}' of shape {shape} cannot be written as rows of 'predictions'")]
    Rows { output: String, shape: String },
    /// Dimensions that do not make a shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl RestError {
    /// Converts a reader's error while reading `field`.
    pub(super) fn from_json(field: &str, error: &JsonError) -> Self {
        match error {
            JsonError::Syntax { message, offset } => Self::Syntax { message, offset: *offset },
            JsonError::TooDeep => Self::TooDeep,
            JsonError::Mismatch(expected) => Self::field(field, expected.reason()),
            JsonError::OutOfRange(_) => Self::field(field, "number is out of range"),
        }
    }

    /// A required field that is missing.
    pub(super) fn missing(field: &str) -> Self {
        let reason = format!("attempt to access non-existing object member '{field}'");
        Self::field(field, reason)
    }

    /// A field with an invalid value.
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

//! What can be wrong with a body, in Triton's words where it has some.

use crate::json::JsonError;
use crate::{Code, Coded, DataType, ShapeError};

/// Why a body could not be decoded, or a response not be written as the client asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestError {
    /// Not JSON.
    #[error("failed to parse the request JSON buffer: {what} at {offset}")]
    Syntax {
        /// What is missing or wrong, in RapidJSON's words.
        what: &'static str,
        /// Bytes from the start of the JSON.
        offset: usize,
    },
    /// More arrays and objects within each other than allowed.
    #[error("JSON nesting depth exceeds maximum allowed limit (100)")]
    TooDeep,
    /// A field that is missing or of another JSON type.
    #[error("Unable to parse '{field}': {reason}")]
    Field {
        /// The field's name.
        field: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A key that stands twice in one object.
    #[error("duplicate key '{key}' in {place}")]
    DuplicateKey {
        /// The key.
        key: String,
        /// The object, in words.
        place: &'static str,
    },
    /// `Inference-Header-Content-Length` is no number.
    #[error("Unable to parse Inference-Header-Content-Length, got: {value}")]
    HeaderLength {
        /// The header as sent.
        value: String,
    },
    /// `Inference-Header-Content-Length` does not fit 32 bits.
    #[error(
        "Unable to parse Inference-Header-Content-Length, value is out of range [ {}, {} ], got: {value}",
        i32::MIN,
        i32::MAX
    )]
    HeaderLengthRange {
        /// The header as sent.
        value: String,
    },
    /// `Inference-Header-Content-Length` is negative or longer than the body.
    #[error("inference header size should be in range (0, {body}), got: {value}")]
    HeaderLengthBody {
        /// Bytes in the body.
        body: usize,
        /// The header as sent.
        value: String,
    },
    /// The body ends within the JSON.
    #[error("unexpected size for request JSON, expecting {missing} more bytes")]
    ShortJson {
        /// Bytes that are missing.
        missing: usize,
    },
    /// More JSON than allowed.
    #[error(
        "request JSON size of {size} bytes exceeds the maximum allowed input size of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    JsonTooLarge {
        /// Bytes of JSON.
        size: usize,
        /// [`Limits::max_json`](super::Limits::max_json).
        limit: usize,
    },
    /// A tensor in JSON that would fill more memory than allowed.
    #[error(
        "JSON input '{input}' has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    DataTooLarge {
        /// The input's name.
        input: String,
        /// Bytes it would take.
        size: usize,
        /// [`Limits::max_json`](super::Limits::max_json).
        limit: usize,
    },
    /// A raw body larger than allowed.
    #[error(
        "Raw input has a byte_size ({size} bytes) that exceeds the maximum allowed value of {limit} bytes. Use --http-max-input-size to increase the limit."
    )]
    RawTooLarge {
        /// Bytes in the body.
        size: usize,
        /// [`Limits::max_json`](super::Limits::max_json).
        limit: usize,
    },
    /// More inputs or outputs than allowed.
    #[error("request has more than {limit} {list}")]
    TooMany {
        /// `inputs` or `outputs`.
        list: &'static str,
        /// [`Limits::max_tensors`](super::Limits::max_tensors).
        limit: usize,
    },
    /// A shape of more dimensions than any tensor has.
    #[error("shape of input '{input}' has more than {limit} dimensions")]
    TooManyDims {
        /// The input's name.
        input: String,
        /// The most there may be.
        limit: usize,
    },
    /// A dimension beyond 63 bits.
    #[error(
        "invalid shape for input '{input}': shape {shape} contains one or more invalid dimensions"
    )]
    InvalidDims {
        /// The input's name.
        input: String,
        /// The dimensions as given.
        shape: String,
    },
    /// A product of dimensions beyond what a tensor may hold.
    #[error(
        "invalid shape for input '{input}': shape {shape} causes total element count to exceed maximum size of {limit}"
    )]
    ElementOverflow {
        /// The input's name.
        input: String,
        /// The dimensions as given.
        shape: String,
        /// The most elements there may be.
        limit: u64,
    },
    /// An element count that fits, but not times the element's size.
    #[error(
        "byte size overflow for input '{input}': element count ({elements}) * data type size ({size}) exceeds maximum allowed size ({})",
        i64::MAX
    )]
    ByteOverflow {
        /// The input's name.
        input: String,
        /// The product of its dimensions.
        elements: u64,
        /// Bytes per element.
        size: usize,
    },
    /// A datatype V2 does not have.
    #[error("invalid datatype '{datatype}' for input {input}")]
    Datatype {
        /// The input's name.
        input: String,
        /// The datatype as given.
        datatype: String,
    },
    /// More or fewer scalars than the shape has elements.
    #[error(
        "Unable to parse 'data': Shape does not match true shape of 'data' field for input '{input}'"
    )]
    DataCount {
        /// The input's name.
        input: String,
    },
    /// A scalar that is not of the input's datatype.
    #[error("Unable to parse '{field}': {reason} for input '{input}'")]
    Element {
        /// The member that holds the data: `data`, or in bodies that name inputs by keys, the key.
        field: String,
        /// What is wrong, in the words of Triton's JSON library.
        reason: &'static str,
        /// The input's name.
        input: String,
    },
    /// A number that the datatype cannot hold.
    #[error("Unable to parse '{field}': {value} is out of range for {datatype} input '{input}'")]
    OutOfRange {
        /// The member that holds the data.
        field: String,
        /// The number as written.
        value: String,
        /// The input's datatype.
        datatype: DataType,
        /// The input's name.
        input: String,
    },
    /// Half precision in JSON.
    #[error(
        "receiving {datatype} data via JSON is not supported. Please use the binary data format for input {input}"
    )]
    HalfInput {
        /// `FP16` or `BF16`.
        datatype: DataType,
        /// The input's name.
        input: String,
    },
    /// None or several of the places data can be in.
    #[error(
        "Input must set only one of the following fields: 'data', 'binary_data_size' in 'parameters', 'shared_memory_region' in 'parameters'. But {found}"
    )]
    DataSource {
        /// `no field is set`, or `set` and the fields.
        found: String,
    },
    /// An output both in shared memory and in another form.
    #[error("Output can't set both 'shared_memory_region' and '{other}'")]
    OutputConflict {
        /// The other form.
        other: &'static str,
    },
    /// Fewer bytes after the JSON than announced.
    #[error(
        "unexpected size for input '{input}', expecting {missing} additional bytes for model '{model}'"
    )]
    ShortInput {
        /// The input's name.
        input: String,
        /// Bytes that are missing.
        missing: usize,
        /// The model's name.
        model: String,
    },
    /// More bytes after the JSON than announced.
    #[error("unexpected additional input data for model '{model}'")]
    SurplusInput {
        /// The model's name.
        model: String,
    },
    /// One name for two inputs.
    #[error("input '{name}' already exists in request")]
    DuplicateInput {
        /// The name.
        name: String,
    },
    /// One name for two outputs.
    #[error("output '{name}' already exists in request")]
    DuplicateOutput {
        /// The name.
        name: String,
    },
    /// A parameter that is an array, an object or null.
    #[error("parameter '{key}' has invalid type. It should be either 'int', 'bool', or 'string'.")]
    ParameterType {
        /// The parameter's key.
        key: String,
    },
    /// A parameter of the reserved family.
    #[error(
        "parameter keys starting with 'triton_' are reserved for Triton usage and should not be specified."
    )]
    ReservedParameter,
    /// A raw body for a model of several inputs.
    #[error(
        "Raw request must only have 1 input (found 1) to be deduced but got {count} inputs in '{model}' model configuration"
    )]
    RawInputs {
        /// Inputs the model has.
        count: usize,
        /// The model's name.
        model: String,
    },
    /// A raw body for an input with several variable dimensions.
    #[error(
        "The shape of the raw input '{input}' can not be deduced because there are more than one variable-sized dimension"
    )]
    RawShape {
        /// The input's name.
        input: String,
    },
    /// A raw body for a BYTES input of another shape than one element.
    #[error("For BYTE datatype raw input '{input}', the model must have input shape [1]")]
    RawBytes {
        /// The input's name.
        input: String,
    },
    /// A body that does not fill the input's dimensions.
    #[error("The schema can not convert input '{input}' to tensor with proper shape")]
    Unshapable {
        /// The input's name.
        input: String,
    },
    /// A V1 body that is none.
    #[error("{0}")]
    Predict(String),
    /// A repository request with a value that cannot be.
    #[error("{0}")]
    Repository(String),
    /// An output in half precision asked for as JSON.
    #[error(
        "sending {datatype} data via JSON is not supported. Please use the binary data format for output {output}"
    )]
    HalfOutput {
        /// `FP16` or `BF16`.
        datatype: DataType,
        /// The output's name.
        output: String,
    },
    /// Strings asked for as JSON that JSON cannot carry. Triton writes a broken document instead.
    #[error(
        "output '{output}' holds bytes that are not UTF-8 and cannot be sent as JSON. Please use the binary data format for output {output}"
    )]
    NotUtf8 {
        /// The output's name.
        output: String,
    },
    /// Outputs that do not make rows.
    #[error("output '{output}' of shape {shape} cannot be written as rows of 'predictions'")]
    Rows {
        /// The output's name.
        output: String,
        /// Its shape.
        shape: String,
    },
    /// Dimensions that make no shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
}

impl RestError {
    /// A reader's failure while reading `field`.
    pub(super) fn reading(field: &str, error: &JsonError) -> Self {
        match error {
            JsonError::Syntax { what, offset } => Self::Syntax {
                what,
                offset: *offset,
            },
            JsonError::TooDeep => Self::TooDeep,
            JsonError::Mismatch(expected) => Self::field(field, expected.reason()),
            JsonError::OutOfRange(_) => Self::field(field, "number is out of range"),
        }
    }

    /// A field that must be there.
    pub(super) fn missing(field: &str) -> Self {
        let reason = format!("attempt to access non-existing object member '{field}'");
        Self::field(field, reason)
    }

    /// A field with something wrong.
    pub(super) fn field(field: &str, reason: impl Into<String>) -> Self {
        Self::Field {
            field: field.to_owned(),
            reason: reason.into(),
        }
    }
}

/// Names the field of a reader's failure.
pub(super) trait InField<T> {
    /// Says that it happened while reading `field`.
    fn field(self, field: &str) -> Result<T, RestError>;
}

impl<T> InField<T> for Result<T, JsonError> {
    fn field(self, field: &str) -> Result<T, RestError> {
        self.map_err(|error| RestError::reading(field, &error))
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
            | Self::Unshapable { .. }
            | Self::Predict(_)
            | Self::Repository(_)
            | Self::HalfOutput { .. }
            | Self::NotUtf8 { .. }
            | Self::Rows { .. }
            | Self::Shape(_) => Code::InvalidArgument,
        }
    }
}

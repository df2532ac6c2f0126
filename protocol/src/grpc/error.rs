//! What can be wrong with a request that protobuf could decode.

use crate::{Code, Coded, ShapeError};

/// Why a gRPC inference request means nothing. The sentences are Triton's where it has one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GrpcError {
    /// A version that is not a number.
    #[error(
        "failed to get model version from specified version string '{0}' (details: stol), version should be an integral value > 0"
    )]
    Version(String),
    /// A datatype V2 does not have.
    #[error("input '{input}' for model '{model}' has the unknown datatype '{datatype}'")]
    Datatype {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
        /// What was given.
        datatype: String,
    },
    /// Dimensions that no tensor can have.
    #[error("input '{input}' for model '{model}': {cause}")]
    Shape {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
        /// What is wrong with them.
        cause: ShapeError,
    },
    /// Typed contents beside raw ones.
    #[error(
        "contents field must not be specified when using raw_input_contents for '{input}' for \
         model '{model}'"
    )]
    Mixed {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
    },
    /// Neither typed contents, nor an entry of raw ones, nor shared memory.
    #[error("unable to find data for input tensor '{input}' for model '{model}' in request.")]
    NoData {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
    },
    /// Contents in a field for another datatype.
    #[error(
        "unexpected explicit tensor data for input tensor '{input}' for model '{model}' of type \
         '{given}', expected datatype '{expected}'"
    )]
    WrongContents {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
        /// The datatype the field is for.
        given: &'static str,
        /// The input's datatype.
        expected: &'static str,
    },
    /// A value in typed contents that its narrow datatype cannot hold.
    #[error(
        "value {value} of input tensor '{input}' for model '{model}' is out of range for datatype \
         '{datatype}'"
    )]
    Range {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
        /// The value.
        value: i64,
        /// The input's datatype.
        datatype: &'static str,
    },
    /// One BYTES element, or all of them together, beyond what a length prefix can say.
    #[error("input tensor '{input}' for model '{model}' has an element that is too large")]
    ElementTooLarge {
        /// The input's name.
        input: String,
        /// The model's name.
        model: String,
    },
    /// Two inputs of one name.
    #[error("input '{0}' already exists in request")]
    DuplicateInput(String),
    /// Two requested outputs of one name.
    #[error("output '{0}' already exists in request")]
    DuplicateOutput(String),
    /// A parameter key that belongs to the server.
    #[error(
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys \
         starting with 'triton_' are allowed: triton_enable_empty_final_response"
    )]
    ReservedParameter,
    /// A parameter without a value.
    #[error(
        "invalid value type for '{0}' parameter, expected int64_param, bool_param, or string_param."
    )]
    EmptyParameter(String),
    /// A reserved parameter with a value of another type.
    #[error("invalid value type for '{key}' parameter, expected {expected}.")]
    ParameterType {
        /// The parameter's key.
        key: &'static str,
        /// The fields of `InferParameter` it may use.
        expected: &'static str,
    },
    /// A reserved parameter with an impossible value.
    #[error("invalid value for '{key}', expected {expected}.")]
    ParameterValue {
        /// The parameter's key.
        key: &'static str,
        /// What is possible.
        expected: &'static str,
    },
    /// A tensor's shared-memory parameter of another type.
    #[error("invalid value type for '{key}' parameter for tensor '{tensor}', expected {expected}.")]
    SharedType {
        /// The parameter's key.
        key: &'static str,
        /// The tensor's name.
        tensor: String,
        /// The field of `InferParameter` it must use.
        expected: &'static str,
    },
    /// A negative offset or size in shared memory.
    #[error("invalid value for '{key}' parameter for tensor '{tensor}', must not be negative.")]
    SharedNegative {
        /// The parameter's key.
        key: &'static str,
        /// The tensor's name.
        tensor: String,
    },
    /// A place in shared memory that is not complete.
    #[error("'{given}' can not be specified without '{missing}' parameter for tensor '{tensor}'.")]
    SharedIncomplete {
        /// The key that is there.
        given: &'static str,
        /// The key that is not.
        missing: &'static str,
        /// The tensor's name.
        tensor: String,
    },
    /// Classes cannot be written to shared memory.
    #[error(
        "'classification' can not be specified with 'shared_memory_region' parameter for tensor \
         '{0}'."
    )]
    SharedClasses(String),
}

impl Coded for GrpcError {
    fn code(&self) -> Code {
        match self {
            Self::Version(_)
            | Self::Datatype { .. }
            | Self::Shape { .. }
            | Self::Mixed { .. }
            | Self::NoData { .. }
            | Self::WrongContents { .. }
            | Self::Range { .. }
            | Self::ElementTooLarge { .. }
            | Self::DuplicateInput(_)
            | Self::DuplicateOutput(_)
            | Self::ReservedParameter
            | Self::EmptyParameter(_)
            | Self::ParameterType { .. }
            | Self::ParameterValue { .. }
            | Self::SharedType { .. }
            | Self::SharedNegative { .. }
            | Self::SharedIncomplete { .. }
            | Self::SharedClasses(_) => Code::InvalidArgument,
        }
    }
}

//! Errors of requests that protobuf could decode.

use crate::{Code, Coded, ShapeError};

/// An invalid gRPC inference request. The messages are Triton's where it has one.
#[expect(missing_docs, reason = "most fields are explained by the variant's message")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GrpcError {
    /// A version that is not a number.
    #[error(
        "failed to get model version from specified version string '{0}' (details: stol), version should be an integral value > 0"
    )]
    Version(String),
    /// A datatype V2 does not have.
    #[error("input '{input}' for model '{model}' has the unknown datatype '{datatype}'")]
    Datatype { input: String, model: String, datatype: String },
    /// Dimensions that no tensor can have.
    #[error("input '{input}' for model '{model}': {cause}")]
    Shape { input: String, model: String, cause: ShapeError },
    /// Typed contents beside raw ones.
    #[error(
        "contents field must not be specified when using raw_input_contents for '{input}' for \
         model '{model}'"
    )]
    MixedContents { input: String, model: String },
    /// Typed contents of an input in shared memory.
    #[error(
        "unexpected 'content' provided when using shared memory for input tensor '{input}' for model \
         '{model}'"
    )]
    SharedContents { input: String, model: String },
    /// Neither typed contents, nor an entry of raw ones, nor shared memory.
    #[error("unable to find data for input tensor '{input}' for model '{model}' in request.")]
    NoData { input: String, model: String },
    /// Contents in the field of another datatype.
    #[error(
        "unexpected explicit tensor data for input tensor '{input}' for model '{model}' of type \
         '{given}', expected datatype '{expected}'"
    )]
    WrongContents {
        input: String,
        model: String,
        /// Datatype of the field that is filled.
        given: &'static str,
        expected: &'static str,
    },
    /// A value in typed contents that its narrow datatype cannot hold.
    #[error(
        "value {value} of input tensor '{input}' for model '{model}' is out of range for datatype \
         '{datatype}'"
    )]
    OutOfRange { input: String, model: String, value: i64, datatype: &'static str },
    /// A BYTES element longer than a length prefix of 32 bits can say.
    #[error("input tensor '{input}' for model '{model}' has an element that is too large")]
    ElementTooLarge { input: String, model: String },
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
    #[error("invalid value type for '{0}' parameter, expected int64_param, bool_param, or string_param.")]
    EmptyParameter(String),
    /// A reserved parameter with a value of another type.
    #[error("invalid value type for '{key}' parameter, expected {expected}.")]
    ParameterType {
        key: &'static str,
        /// Fields of `InferParameter` that it may use.
        expected: &'static str,
    },
    /// A reserved parameter with an impossible value.
    #[error("invalid value for '{key}', expected {expected}.")]
    ParameterValue { key: &'static str, expected: &'static str },
    /// A tensor's shared-memory parameter of another type.
    #[error("invalid value type for '{key}' parameter for tensor '{tensor}', expected {expected}.")]
    SharedType {
        key: &'static str,
        tensor: String,
        /// Field of `InferParameter` that it must use.
        expected: &'static str,
    },
    /// A negative offset or size in shared memory.
    #[error("invalid value for '{key}' parameter for tensor '{tensor}', must not be negative.")]
    SharedNegative { key: &'static str, tensor: String },
    /// A range of shared memory with a parameter missing.
    #[error("'{given}' can not be specified without '{missing}' parameter for tensor '{tensor}'.")]
    SharedIncomplete { given: &'static str, missing: &'static str, tensor: String },
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
            | Self::MixedContents { .. }
            | Self::SharedContents { .. }
            | Self::NoData { .. }
            | Self::WrongContents { .. }
            | Self::OutOfRange { .. }
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

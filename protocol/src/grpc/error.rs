//! Errors of requests that are valid protobuf.

use crate::{Code, Coded, ShapeError};

/// Error of an invalid gRPC inference request. The messages are Triton's where Triton has one.
#[expect(missing_docs, reason = "most fields are explained by the variant's message")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GrpcError {
    /// The model version is not a number.
    #[error(
        "failed to get model version from specified version string '{0}' (details: stol), version should be an integral value > 0"
    )]
    Version(String),
    /// The datatype is not defined by V2.
    #[error("input '{input}' for model '{model}' has the unknown datatype '{datatype}'")]
    Datatype { input: String, model: String, datatype: String },
    /// No tensor can have these dimensions.
    #[error("input '{input}' for model '{model}': {cause}")]
    Shape { input: String, model: String, cause: ShapeError },
    /// The request has both typed and raw contents.
    #[error(
        "contents field must not be specified when using raw_input_contents for '{input}' for \
         model '{model}'"
    )]
    MixedContents { input: String, model: String },
    /// An input in shared memory also has typed contents.
    #[error(
        "unexpected 'content' provided when using shared memory for input tensor '{input}' for model \
         '{model}'"
    )]
    SharedContents { input: String, model: String },
    /// An input has no typed contents, no entry in the raw contents and no shared memory.
    #[error("unable to find data for input tensor '{input}' for model '{model}' in request.")]
    NoData { input: String, model: String },
    /// The contents are in the field of another datatype.
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
    /// The datatype cannot hold a value of the typed contents.
    #[error(
        "value {value} of input tensor '{input}' for model '{model}' is out of range for datatype \
         '{datatype}'"
    )]
    OutOfRange { input: String, model: String, value: i64, datatype: &'static str },
    /// A BYTES element is too long for a 32-bit length prefix.
    #[error("input tensor '{input}' for model '{model}' has an element that is too large")]
    ElementTooLarge { input: String, model: String },
    /// Two inputs have the same name.
    #[error("input '{0}' already exists in request")]
    DuplicateInput(String),
    /// Two requested outputs have the same name.
    #[error("output '{0}' already exists in request")]
    DuplicateOutput(String),
    /// The parameter key is reserved for the server.
    #[error(
        "parameter keys starting with 'triton_' are reserved for Triton usage. Only the following keys \
         starting with 'triton_' are allowed: triton_enable_empty_final_response"
    )]
    ReservedParameter,
    /// The parameter has no value.
    #[error("invalid value type for '{0}' parameter, expected int64_param, bool_param, or string_param.")]
    EmptyParameter(String),
    /// A reserved parameter has a value of the wrong type.
    #[error("invalid value type for '{key}' parameter, expected {expected}.")]
    ParameterType {
        key: &'static str,
        /// Fields of `InferParameter` that the parameter may use.
        expected: &'static str,
    },
    /// A reserved parameter has an invalid value.
    #[error("invalid value for '{key}', expected {expected}.")]
    ParameterValue { key: &'static str, expected: &'static str },
    /// A tensor's shared-memory parameter has the wrong type.
    #[error("invalid value type for '{key}' parameter for tensor '{tensor}', expected {expected}.")]
    SharedType {
        key: &'static str,
        tensor: String,
        /// Field of `InferParameter` that the parameter must use.
        expected: &'static str,
    },
    /// An offset or size in shared memory is negative.
    #[error("invalid value for '{key}' parameter for tensor '{tensor}', must not be negative.")]
    SharedNegative { key: &'static str, tensor: String },
    /// A parameter of a shared-memory range is missing.
    #[error("'{given}' can not be specified without '{missing}' parameter for tensor '{tensor}'.")]
    SharedIncomplete { given: &'static str, missing: &'static str, tensor: String },
    /// Classes were requested in shared memory, where they cannot be written.
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

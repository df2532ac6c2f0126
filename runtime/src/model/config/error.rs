//! Errors of model configurations.

use weir_protocol::{Code, Coded};

/// The reason why a configuration is refused. The texts are for the index, the log and the client that requested the
/// load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The text is not a model configuration.
    #[error("{file}{at}: {message}")]
    Syntax {
        /// Name of the text, such as its path.
        file: String,
        /// `:line:column`, counted from 1; empty if unknown.
        at: String,
        /// The mistake, and the most similar valid name.
        message: String,
    },
    /// A value is invalid, or contradicts another value.
    #[error("{0}")]
    Invalid(String),
    /// A field that Weir does not support and cannot ignore without changing answers.
    #[error("model '{model}': {feature} is not supported by weir")]
    Unsupported {
        model: String,
        /// The field, as written in a configuration.
        feature: String,
    },
}

impl Coded for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::Syntax { .. } | Self::Invalid(_) | Self::Unsupported { .. } => Code::InvalidArgument,
        }
    }
}

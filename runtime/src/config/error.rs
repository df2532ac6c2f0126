//! Errors of model configurations.

use weir_protocol::{Code, Coded};

/// Reason why a configuration is refused. The sentences go to the index, the log and the client that
/// asked for the load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The text is no model configuration.
    #[error("{file}{at}: {message}")]
    Syntax {
        /// Name of the text.
        file: String,
        /// `:line:column`, counted from 1; empty where unknown.
        at: String,
        /// The mistake, and the most similar valid name.
        message: String,
    },
    /// A value contradicts another or makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A field that Weir does not support and cannot ignore without changing answers.
    #[error("model '{model}': {feature} is not supported by weir")]
    Unsupported {
        model: String,
        /// The field, as the configuration writes it.
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

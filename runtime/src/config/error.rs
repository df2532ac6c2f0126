//! Why a configuration is refused.

use weir_protocol::{Code, Coded};

/// Why a configuration is refused. The sentences go to the index, the log and the client that
/// asked for the load.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ConfigError {
    /// The text is not one of a model configuration.
    #[error("{file}{at}: {message}")]
    Syntax {
        /// What the text was called.
        file: String,
        /// `:line:column`, counted from 1; empty where unknown.
        at: String,
        /// What is wrong, and what was probably meant.
        message: String,
    },
    /// A value contradicts another or makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// It asks for what weir does not do, and leaving it out would change answers.
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
            Self::Syntax { .. } | Self::Invalid(_) | Self::Unsupported { .. } => {
                Code::InvalidArgument
            }
        }
    }
}

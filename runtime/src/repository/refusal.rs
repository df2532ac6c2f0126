//! What clients read when the repository does not do what they asked.

use std::fmt::Write as _;

use weir_protocol::Code;

use crate::error::ServeError;

/// A model, or one version of it, that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// Its directory or configuration is no use.
    #[error("load failed for model '{model}': {reason}")]
    Model {
        /// The model.
        model: String,
        /// Why.
        reason: String,
    },
    /// The version did not come to life.
    #[error(
        "load failed for model '{model}': version {version} is at UNAVAILABLE state: {reason};"
    )]
    Version {
        /// The model.
        model: String,
        /// The version.
        version: u64,
        /// Why.
        reason: String,
    },
    /// `--load-model` names what no repository holds.
    #[error("failed to load '{model}', failed to poll from model repository")]
    Absent {
        /// The model.
        model: String,
    },
    /// A repository path became unreadable before anything was loaded.
    #[error("failed to poll from model repository: {reason}")]
    Repository {
        /// Why.
        reason: String,
    },
}

/// All that went wrong with one model's load in one sentence.
pub(super) fn load_failed(name: &str, failures: &[Failure]) -> ServeError {
    let mut message = format!("load failed for model '{name}': ");
    for failure in failures {
        let _ = match failure {
            Failure::Version {
                version, reason, ..
            } => {
                write!(
                    message,
                    "version {version} is at UNAVAILABLE state: {reason};"
                )
            }
            Failure::Model { reason, .. } | Failure::Repository { reason } => {
                write!(message, "{reason}")
            }
            Failure::Absent { .. } => return absent(name),
        };
    }
    ServeError::Repository {
        message,
        code: Code::InvalidArgument,
    }
}

/// No repository holds that model.
pub(super) fn absent(name: &str) -> ServeError {
    let message = format!("failed to load '{name}', failed to poll from model repository");
    ServeError::Repository {
        message,
        code: Code::NotFound,
    }
}

/// `file:` parameters say nothing of how to serve what they bring.
pub(super) fn files_without_config(name: &str) -> ServeError {
    let message = format!(
        "failed to load '{name}', failed to poll from model repository: \
         'file:' parameters need a 'config' parameter"
    );
    ServeError::Repository {
        message,
        code: Code::InvalidArgument,
    }
}

/// The control mode leaves loading to the server.
pub(super) fn not_explicit() -> ServeError {
    let message = "explicit model load / unload is not allowed if polling is enabled".to_owned();
    ServeError::Repository {
        message,
        code: Code::Unavailable,
    }
}

/// The repository itself cannot be read.
pub(super) fn unreadable(name: &str, reason: &str) -> ServeError {
    let message =
        format!("failed to load '{name}', failed to poll from model repository: {reason}");
    ServeError::Repository {
        message,
        code: Code::Internal,
    }
}

/// A `--model-repository` cannot be read.
pub(super) fn unreadable_paths(message: String) -> ServeError {
    ServeError::Repository {
        message,
        code: Code::Internal,
    }
}

//! Failures of the repository, with their texts for logs and clients.

use std::fmt::Write as _;

use weir_protocol::Code;

use crate::error::ServeError;

/// A failure to load a model, or one version of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LoadFailure {
    /// The model's directory or configuration cannot be used.
    #[error("load failed for model '{model}': {reason}")]
    Model { model: String, reason: String },
    /// The version failed to load.
    #[error("load failed for model '{model}': version {version} is at UNAVAILABLE state: {reason};")]
    Version { model: String, version: u64, reason: String },
    /// `--load-model` names a model that no repository path holds; `held` lists the models that the paths do hold.
    #[error("failed to load '{model}', failed to poll from model repository: it holds {held}")]
    Absent { model: String, held: String },
    /// A repository could not be read, or not all of its models could be fetched, before anything was loaded.
    #[error("failed to poll from model repository: {reason}")]
    Repository { reason: String },
}

/// Limit on the model names in a message.
const MOST_NAMES: usize = 20;

/// Lists model names for a message: the first ones, and the total number if there are more.
pub(super) fn some_names<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    let count = names.len();
    let first: Vec<&str> = names.take(MOST_NAMES).map(String::as_str).collect();
    let first = first.join(", ");
    match count {
        0 => "no model".to_owned(),
        1..=MOST_NAMES => first,
        _ => format!("{first}, … ({count} in all)"),
    }
}

/// Returns one error for a load with several failures.
pub(super) fn load_failed(name: &str, failures: &[LoadFailure]) -> ServeError {
    let mut message = format!("load failed for model '{name}': ");
    for failure in failures {
        let _ = match failure {
            LoadFailure::Version { version, reason, .. } => {
                write!(message, "version {version} is at UNAVAILABLE state: {reason};")
            }
            LoadFailure::Model { reason, .. } | LoadFailure::Repository { reason } => {
                write!(message, "{reason}")
            }
            LoadFailure::Absent { .. } => return absent(name),
        };
    }
    ServeError::Repository { message, code: Code::InvalidArgument }
}

/// Returns the error for a load of a model that cannot be inspected.
pub(super) fn model_failed(name: &str, reason: String) -> ServeError {
    let model = name.to_owned();
    load_failed(name, &[LoadFailure::Model { model, reason }])
}

/// Returns the error for a model that no repository path holds.
pub(super) fn absent(name: &str) -> ServeError {
    let message = format!("failed to load '{name}', failed to poll from model repository");
    ServeError::Repository { message, code: Code::NotFound }
}

/// Returns the error for `file:` parameters without a configuration, which do not define how the files are served.
pub(super) fn files_without_config(name: &str) -> ServeError {
    let message = format!(
        "failed to load '{name}', failed to poll from model repository: \
         'file:' parameters need a 'config' parameter"
    );
    ServeError::Repository { message, code: Code::InvalidArgument }
}

/// Returns the error for a load or unload in a control mode other than explicit.
pub(super) fn not_explicit() -> ServeError {
    let message = "explicit model load / unload is not allowed if polling is enabled".to_owned();
    ServeError::Repository { message, code: Code::Unavailable }
}

/// Returns the error for a load while a repository path cannot be read.
pub(super) fn unreadable(name: &str, reason: &str) -> ServeError {
    let message = format!("failed to load '{name}', failed to poll from model repository: {reason}");
    ServeError::Repository { message, code: Code::Internal }
}

/// Returns the error for a `--model-repository` that cannot be read.
pub(super) fn unreadable_paths(message: String) -> ServeError {
    ServeError::Repository { message, code: Code::Internal }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_a_few_models() {
        let names = |count: usize| (0..count).map(|n| format!("m{n}")).collect::<Vec<_>>();
        assert_eq!(some_names(names(0).iter()), "no model");
        assert_eq!(some_names(names(2).iter()), "m0, m1");
        let many = some_names(names(21).iter());
        assert!(many.ends_with("m19, … (21 in all)"), "{many}");
    }
}

//! Failures of onnxruntime, as sentences for the user.

/// A call into onnxruntime that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OnnxError {
    /// The library cannot be opened or is too old.
    #[error("{0}")]
    Library(String),
    /// The file is not a model, or a model that cannot be served.
    #[error("{0}")]
    Model(String),
    /// The inputs of a run are not among those that the model takes; nothing has run.
    #[error("{0}")]
    Inputs(String),
    /// The model failed while it ran.
    #[error("{0}")]
    Run(String),
    /// Memory ran out, on the device or the host.
    #[error("{0}")]
    OutOfMemory(String),
}

/// Parts of onnxruntime's messages about missing memory.
const OUT_OF_MEMORY: [&str; 3] = ["Failed to allocate memory", "bad_alloc", "out of memory"];

/// Start of the messages about an operator that failed, in contrast to inputs that were refused.
const OF_OPERATOR: &str = "Non-zero status code returned while running";

/// Number of the code for refused arguments, `ORT_INVALID_ARGUMENT` of `OrtErrorCode`.
const INVALID_ARGUMENT: i32 = 2;

impl OnnxError {
    /// Returns the error of a call, by its code and message.
    pub(crate) fn of_status(code: i32, text: &str) -> Self {
        let text = one_line(text);
        if OUT_OF_MEMORY.iter().any(|phrase| text.contains(phrase)) {
            return Self::OutOfMemory(text);
        }
        if code == INVALID_ARGUMENT && !text.starts_with(OF_OPERATOR) {
            return Self::Inputs(text);
        }
        Self::Run(text)
    }

    /// Converts the error of a call that loads a file.
    pub(crate) fn of_load(self) -> Self {
        match self {
            Self::Inputs(text) | Self::Run(text) => Self::Model(explained(&text)),
            Self::Library(_) | Self::Model(_) | Self::OutOfMemory(_) => self,
        }
    }
}

/// Adds to a message what the user can do, where the library does not say it.
fn explained(text: &str) -> String {
    let remedy = if text.contains("Protobuf parsing failed") {
        "; the file is damaged, as after a copy or download that was cut off: copy it again"
    } else if text.contains("Failed to construct locale") {
        "; the file names a locale that this system does not have: export it with the locale 'C'"
    } else if text.contains("is not a registered function/op") {
        "; operators outside of ONNX's own domains need a library of operators, which this server does not load"
    } else if text.contains("escapes model directory") || text.contains("Absolute path not allowed") {
        "; files with external data must lie beside the model, in its own directory"
    } else {
        ""
    };
    format!("{text}{remedy}")
}

/// Joins the lines of a message, and removes the stack of source files that some messages end with.
fn one_line(text: &str) -> String {
    let text = text.split("\nStacktrace:").next().unwrap_or(text);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_inputs_failed_operators_and_missing_memory_are_distinguished() {
        let dims = "Got invalid dimensions for input: x";
        assert_eq!(OnnxError::of_status(2, dims), OnnxError::Inputs(dims.to_owned()));
        let failed = "Non-zero status code returned while running Gather node.\n Status Message: out of bounds";
        assert!(matches!(OnnxError::of_status(2, failed), OnnxError::Run(text) if !text.contains('\n')));
        let memory = "Failed to allocate memory for requested buffer of size 99";
        assert!(matches!(OnnxError::of_status(6, memory), OnnxError::OutOfMemory(_)));
    }

    #[test]
    fn files_beside_the_model_are_named_in_the_advice() {
        let error = OnnxError::of_status(1, "External data path escapes model directory.").of_load();
        assert!(error.to_string().ends_with("must lie beside the model, in its own directory"), "{error}");
    }
}

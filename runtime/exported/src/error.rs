//! Errors of the reader.

/// A failure to read an exported program. The text completes a sentence that begins with the name of the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportedError {
    /// The archive cannot be read, or an entry is missing or too large.
    #[error("is damaged: {0}")]
    Archive(String),
    /// The program is not of a known schema.
    #[error("cannot be read: {0}")]
    Schema(String),
    /// The program is valid, but this runtime does not run it.
    #[error("cannot be served: {0}")]
    Unsupported(String),
}

impl ExportedError {
    pub(crate) fn schema(text: impl std::fmt::Display) -> Self {
        Self::Schema(text.to_string())
    }
}

//! Errors in a manifest, with their positions.

use std::fmt;

/// A position in a text, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Number of the line.
    pub line: usize,
    /// Column of the line, in characters.
    pub column: usize,
}

/// An error in a manifest. It is printed as `FILE:LINE:COLUMN: FIELD: SENTENCE`, a format that editors and terminals
/// turn into links.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// Name of the file, as given to [`crate::read`].
    pub file: String,
    /// Position of the error in the file.
    pub position: Position,
    /// Path of the field, as in `spec.predictor.model.env[0].name`; empty for a whole document.
    pub field: String,
    /// Kind of the error, with its details.
    #[source]
    pub problem: Problem,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position: Position { line, column }, field, problem } = self;
        write!(to, "{file}:{line}:{column}: ")?;
        if !field.is_empty() {
            write!(to, "{field}: ")?;
        }
        write!(to, "{problem}")
    }
}

/// Kind of an error in a manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A text that is not YAML, or YAML without an equivalent in JSON.
    #[error("{0}")]
    Syntax(String),
    /// A field that the type does not have.
    #[error("unknown field{}", meant(.nearest.as_deref()))]
    UnknownField {
        /// Most similar field of the type or of an adjacent level; None if no field is similar.
        nearest: Option<String>,
    },
    /// A required field that is missing.
    #[error("required field is missing")]
    Missing,
    /// A key written twice in one mapping.
    #[error("`{key}` is given twice; the first is on line {first}")]
    Duplicate {
        /// Key that both entries have.
        key: String,
        /// Line of the first occurrence.
        first: usize,
    },
    /// A value of the wrong type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// Type of the field, as in `an integer`.
        expected: &'static str,
        /// Description of the written value.
        found: String,
    },
    /// An unquoted value that YAML does not read as text.
    #[error("expected text, found {found}; put it in quotes")]
    Unquoted {
        /// Description of the value as YAML reads it.
        found: String,
    },
    /// A word that is not among the allowed ones.
    #[error("`{found}` is not one of {}{}", .known.join(", "), meant(.nearest.as_deref()))]
    UnknownWord {
        /// The word as written.
        found: String,
        /// All words that are allowed.
        known: Vec<String>,
        /// The most similar allowed word; None if no word is similar.
        nearest: Option<String>,
    },
    /// A number outside its allowed range.
    #[error("{found} is not between {least} and {most}")]
    OutOfRange {
        /// The number as written.
        found: i64,
        /// The smallest number allowed.
        least: i64,
        /// The largest number allowed.
        most: i64,
    },
    /// A text that is not a Kubernetes quantity.
    #[error("`{0}` is not a quantity, such as 2, 500m or 4Gi")]
    Quantity(String),
    /// A kind that does not exist in the given API version.
    #[error("no `{kind}` in `{api_version}`; Weir knows {known}{}", meant(*.nearest))]
    UnknownKind {
        /// The kind as written.
        kind: String,
        /// The API version as written.
        api_version: String,
        /// The known kinds with their versions.
        known: &'static str,
        /// The most similar known kind; None if no kind is similar.
        nearest: Option<&'static str>,
    },
    /// A kind of KServe that Weir does not support.
    #[error("KServe's `{0}` is not supported by Weir")]
    UnsupportedKind(String),
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

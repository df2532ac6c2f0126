//! What can be wrong with a manifest, and where.

use std::fmt;

/// A position in a text; both numbers count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column, in characters.
    pub column: usize,
}

/// Something wrong with a manifest. Printed as `FILE:LINE:COLUMN: FIELD: SENTENCE`, which editors
/// and terminals link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// What the caller of [`crate::read`] called the text.
    pub file: String,
    /// Where.
    pub position: Position,
    /// Path of the field, as in `spec.predictor.model.env[0].name`; empty for a whole document.
    pub field: String,
    /// What.
    #[source]
    pub problem: Problem,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            position: Position { line, column },
            field,
            problem,
        } = self;
        write!(to, "{file}:{line}:{column}: ")?;
        if !field.is_empty() {
            write!(to, "{field}: ")?;
        }
        write!(to, "{problem}")
    }
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Not YAML, or YAML that has no meaning in JSON.
    #[error("{0}")]
    Syntax(String),
    /// A field that the type does not have.
    #[error("unknown field{}", meant(.nearest.as_deref()))]
    UnknownField {
        /// The field of the same type, or of one just below, that is most like it.
        nearest: Option<String>,
    },
    /// A field that the type must have.
    #[error("missing, and required")]
    Missing,
    /// A key written twice in one mapping.
    #[error("given twice; the first is on line {first}")]
    Duplicate {
        /// Line of the first.
        first: usize,
    },
    /// A value of another type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the field takes.
        expected: &'static str,
        /// What is written.
        found: String,
    },
    /// A text that would have been right in quotes.
    #[error("expected text, found {found}; put it in quotes")]
    Unquoted {
        /// What YAML takes it for.
        found: String,
    },
    /// A word that is none of those allowed.
    #[error("`{found}` is none of {}{}", .known.join(", "), meant(.nearest.as_deref()))]
    UnknownWord {
        /// What is written.
        found: String,
        /// What may be.
        known: Vec<String>,
        /// The one most like it.
        nearest: Option<String>,
    },
    /// A number outside its bounds.
    #[error("{found} is not between {least} and {most}")]
    OutOfRange {
        /// What is written.
        found: i64,
        /// Least that may be.
        least: i64,
        /// Most that may be.
        most: i64,
    },
    /// A quantity that Kubernetes does not understand.
    #[error("`{0}` is not a quantity, such as 2, 500m or 4Gi")]
    Quantity(String),
    /// A kind in an API version that does not have it.
    #[error("no `{kind}` in `{api_version}`; Weir knows {known}{}", meant(*.nearest))]
    UnknownKind {
        /// What is written.
        kind: String,
        /// Where it is looked for.
        api_version: String,
        /// What there is.
        known: &'static str,
        /// The kind most like it.
        nearest: Option<&'static str>,
    },
    /// A kind of KServe's that Weir does not serve.
    #[error("KServe's `{0}` is not supported by Weir")]
    UnsupportedKind(String),
}

fn meant(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

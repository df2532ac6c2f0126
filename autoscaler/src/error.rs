//! What is wrong with a declared policy.

/// A knob that cannot be read. Correct it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {value:?}, and must be {accepted}")]
pub struct PolicyError {
    /// The field or annotation.
    pub field: &'static str,
    /// Its value as given.
    pub value: String,
    /// What it may be.
    pub accepted: &'static str,
}

impl PolicyError {
    pub(crate) fn new(field: &'static str, value: impl ToString, accepted: &'static str) -> Self {
        Self {
            field,
            value: value.to_string(),
            accepted,
        }
    }
}

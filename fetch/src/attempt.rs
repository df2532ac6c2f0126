//! Progress reports about the attempts to download a file.

/// An event in the attempts to download a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The server has begun to send the file.
    Began,
    /// The attempt failed for this reason, and another one follows.
    Failed(String),
}

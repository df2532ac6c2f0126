//! Attempts to download a file, for whoever waits for it.

/// An attempt to download a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// The server has begun to send the file.
    Began,
    /// The attempt failed for this reason, and another follows.
    Failed(String),
}

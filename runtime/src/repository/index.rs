//! Entries of Triton's `repository/index`: each version of each model, with its state and the reason.

use super::state::VersionState;

/// State of a version, in Triton's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum IndexState {
    Ready,
    /// Unloaded or failed; the reason distinguishes the two.
    Unavailable,
    Loading,
    /// No longer accepts requests, but still answers accepted ones.
    Unloading,
}

/// One entry of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexEntry {
    pub name: String,
    /// The version; `None` for a model that was never loaded.
    pub version: Option<String>,
    /// The version's state; `None` for a model that was never loaded.
    pub state: Option<IndexState>,
    /// Reason for the state. Empty while loading or unloading, and for a ready version that serves the current files
    /// without limitation.
    pub reason: String,
}

impl IndexState {
    /// Name of the state in the protocol.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "READY",
            Self::Unavailable => "UNAVAILABLE",
            Self::Loading => "LOADING",
            Self::Unloading => "UNLOADING",
        }
    }
}

impl IndexEntry {
    pub(super) fn model(name: &str) -> Self {
        Self { name: name.to_owned(), version: None, state: None, reason: String::new() }
    }

    pub(super) fn failed_model(name: &str, reason: &str) -> Self {
        let state = Some(IndexState::Unavailable);
        Self { name: name.to_owned(), version: None, state, reason: reason.to_owned() }
    }

    /// Returns the entry of a version. `kept` is the reason why the version still serves the previous load,
    /// `limitation` the reason why the version serves with less than its configuration allows.
    pub(super) fn version<S>(
        name: &str,
        version: u64,
        state: &VersionState<S>,
        (kept, limitation): (Option<&str>, Option<&str>),
    ) -> Self {
        let (state, reason) = match state {
            VersionState::Ready(_) => {
                let limitation = limitation.unwrap_or_default().to_owned();
                (IndexState::Ready, kept.map_or(limitation, still_serves))
            }
            VersionState::Loading => (IndexState::Loading, String::new()),
            VersionState::Unloading(_) => (IndexState::Unloading, String::new()),
            VersionState::Unloaded => (IndexState::Unavailable, "unloaded".to_owned()),
            VersionState::Failed { reason } => (IndexState::Unavailable, reason.clone()),
        };
        Self { name: name.to_owned(), version: Some(version.to_string()), state: Some(state), reason }
    }
}

fn still_serves(reason: &str) -> String {
    format!("the files changed, but the previous load still serves: {reason}")
}

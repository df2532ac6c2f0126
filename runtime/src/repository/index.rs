//! What `repository/index` shows.

use super::state::State;

/// A version's state, in Triton's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IndexState {
    /// Answers requests.
    Ready,
    /// Unloaded or failed; the reason says which.
    Unavailable,
    /// On its way.
    Loading,
    /// Answers what it had accepted, and nothing more.
    Unloading,
}

/// One line of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexEntry {
    /// The model.
    pub name: String,
    /// The version; `None` for a model of which none was ever loaded.
    pub version: Option<String>,
    /// Its state; `None` likewise.
    pub state: Option<IndexState>,
    /// Why it is in that state; empty where that needs no words.
    pub reason: String,
}

impl IndexState {
    /// As the wire spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
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
        Self {
            name: name.to_owned(),
            version: None,
            state: None,
            reason: String::new(),
        }
    }

    pub(super) fn failed_model(name: &str, reason: &str) -> Self {
        let state = Some(IndexState::Unavailable);
        Self {
            name: name.to_owned(),
            version: None,
            state,
            reason: reason.to_owned(),
        }
    }

    pub(super) fn version<S>(name: &str, version: u64, state: &State<S>) -> Self {
        let (state, reason) = match state {
            State::Ready(_) => (IndexState::Ready, ""),
            State::Loading => (IndexState::Loading, ""),
            State::Unloading(_) => (IndexState::Unloading, ""),
            State::Unloaded { reason } | State::Failed { reason } => {
                (IndexState::Unavailable, reason.as_str())
            }
        };
        Self {
            name: name.to_owned(),
            version: Some(version.to_string()),
            state: Some(state),
            reason: reason.to_owned(),
        }
    }
}

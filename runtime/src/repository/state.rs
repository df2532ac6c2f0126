//! The states a model version can be in, and the only ways between them.
//!
//! ```text
//!   Unloaded ──begin──► Loading ──succeed──► Ready ──rest──► Unloading ──rested──► Unloaded
//!                          └─────fail─────► Failed           (a reload stays Ready throughout)
//! ```

use std::sync::Arc;

/// Where a version is in its life.
#[derive(Debug)]
pub(super) enum State<S> {
    /// Not wanted, or not yet.
    Unloaded {
        /// As the index shows it.
        reason: String,
    },
    /// On its way; nothing of it serves.
    Loading,
    /// Serving. Stays so while its successor loads.
    Ready(Arc<S>),
    /// The load failed and there was nothing before it.
    Failed {
        /// As the index and the client that asked read it.
        reason: String,
    },
    /// Takes nothing new, still answers what it had accepted.
    Unloading(Arc<S>),
}

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Unloaded { reason } => Self::Unloaded {
                reason: reason.clone(),
            },
            Self::Loading => Self::Loading,
            Self::Ready(served) => Self::Ready(Arc::clone(served)),
            Self::Failed { reason } => Self::Failed {
                reason: reason.clone(),
            },
            Self::Unloading(served) => Self::Unloading(Arc::clone(served)),
        }
    }
}

impl<S> State<S> {
    /// At rest because someone asked.
    pub(super) fn unloaded() -> Self {
        Self::Unloaded {
            reason: "unloaded".to_owned(),
        }
    }

    /// What answers requests.
    pub(super) fn serving(&self) -> Option<&Arc<S>> {
        match self {
            Self::Ready(served) => Some(served),
            Self::Unloaded { .. } | Self::Loading | Self::Failed { .. } | Self::Unloading(_) => {
                None
            }
        }
    }

    /// A load starts. What serves goes on serving.
    pub(super) fn begin(&mut self) {
        if self.serving().is_none() {
            *self = Self::Loading;
        }
    }

    /// The load succeeded. Returns what it replaces, which the caller must retire.
    pub(super) fn succeed(&mut self, served: Arc<S>) -> Option<Arc<S>> {
        match std::mem::replace(self, Self::Ready(served)) {
            Self::Ready(old) => Some(old),
            // Its retirement is under way already.
            Self::Unloading(_) | Self::Unloaded { .. } | Self::Loading | Self::Failed { .. } => {
                None
            }
        }
    }

    /// The load failed. What served before goes on.
    pub(super) fn fail(&mut self, reason: String) {
        if self.serving().is_none() {
            *self = Self::Failed { reason };
        }
    }

    /// The version is no longer wanted. Returns what the caller must retire.
    pub(super) fn rest(&mut self) -> Option<Arc<S>> {
        match self {
            Self::Ready(served) => {
                let served = Arc::clone(served);
                *self = Self::Unloading(Arc::clone(&served));
                Some(served)
            }
            Self::Loading | Self::Failed { .. } => {
                *self = Self::unloaded();
                None
            }
            Self::Unloading(_) | Self::Unloaded { .. } => None,
        }
    }

    /// The retirement of `served` is over. Says nothing of a version that was loaded again meanwhile.
    pub(super) fn rested(&mut self, served: &Arc<S>) {
        if matches!(self, Self::Unloading(leaving) if Arc::ptr_eq(leaving, served)) {
            *self = Self::unloaded();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::State;

    #[test]
    fn a_reload_never_leaves_a_gap() {
        let mut state = State::Ready(Arc::new(1));
        state.begin();
        assert_eq!(state.serving().map(|served| **served), Some(1));
        state.fail("bad file".to_owned());
        assert_eq!(state.serving().map(|served| **served), Some(1));
        assert_eq!(state.succeed(Arc::new(2)).map(|old| *old), Some(1));
        assert_eq!(state.serving().map(|served| **served), Some(2));
    }

    #[test]
    fn a_first_load_fails_and_then_succeeds() {
        let mut state: State<u32> = State::unloaded();
        state.begin();
        assert!(matches!(state, State::Loading));
        state.fail("no file".to_owned());
        assert!(matches!(&state, State::Failed { reason } if reason == "no file"));
        state.begin();
        assert!(state.succeed(Arc::new(1)).is_none());
    }

    #[test]
    fn each_served_is_handed_out_for_retirement_once() {
        let mut state = State::Ready(Arc::new(1));
        let leaving = state.rest().unwrap();
        assert!(state.rest().is_none());
        assert!(state.succeed(Arc::new(2)).is_none());
        state.rested(&leaving);
        assert_eq!(state.serving().map(|served| **served), Some(2));
    }

    #[test]
    fn rest_ends_unloaded() {
        let mut state = State::Ready(Arc::new(1));
        let leaving = state.rest().unwrap();
        assert!(matches!(state, State::Unloading(_)));
        state.rested(&leaving);
        assert!(matches!(&state, State::Unloaded { reason } if reason == "unloaded"));
    }
}

//! The states of a model version, and the only transitions between them.
//!
//! ```text
//!   Unloaded ──begin_load──► Loading ──finish_load──► Ready ──begin_unload──► Unloading ──finish_unload──► Unloaded
//!                               └─────fail_load─────► Failed         (a reload stays Ready throughout)
//! ```

use std::sync::Arc;

/// State of one version; `S` is the loaded version that answers requests.
#[derive(Debug)]
pub(super) enum VersionState<S> {
    /// Not wanted, or not loaded yet.
    Unloaded,
    /// Loading for the first time, or after a failure; the version does not serve yet.
    Loading,
    /// Serving, also while a reload is in progress.
    Ready(Arc<S>),
    /// The load failed, and no earlier load serves.
    Failed {
        /// Text for the index and for the client that requested the load.
        reason: String,
    },
    /// Accepts no new requests, but still answers accepted ones.
    Unloading(Arc<S>),
}

impl<S> Clone for VersionState<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Unloaded => Self::Unloaded,
            Self::Loading => Self::Loading,
            Self::Ready(served) => Self::Ready(Arc::clone(served)),
            Self::Failed { reason } => Self::Failed { reason: reason.clone() },
            Self::Unloading(served) => Self::Unloading(Arc::clone(served)),
        }
    }
}

impl<S> VersionState<S> {
    /// Returns the version if it accepts requests.
    pub(super) fn serving(&self) -> Option<&Arc<S>> {
        match self {
            Self::Ready(served) => Some(served),
            Self::Unloaded | Self::Loading | Self::Failed { .. } | Self::Unloading(_) => None,
        }
    }

    /// Marks the start of a load. A version that serves continues to serve.
    pub(super) fn begin_load(&mut self) {
        if self.serving().is_none() {
            *self = Self::Loading;
        }
    }

    /// Puts a loaded version into service. Returns the replaced version, which the caller must retire.
    pub(super) fn finish_load(&mut self, served: Arc<S>) -> Option<Arc<S>> {
        match std::mem::replace(self, Self::Ready(served)) {
            Self::Ready(old) => Some(old),
            // An unloading version is already being retired.
            Self::Unloading(_) | Self::Unloaded | Self::Loading | Self::Failed { .. } => None,
        }
    }

    /// Marks a failed load. A version that served before continues to serve.
    pub(super) fn fail_load(&mut self, reason: String) {
        if self.serving().is_none() {
            *self = Self::Failed { reason };
        }
    }

    /// Takes the version out of service. Returns the version that the caller must retire.
    pub(super) fn begin_unload(&mut self) -> Option<Arc<S>> {
        match self {
            Self::Ready(served) => {
                let served = Arc::clone(served);
                *self = Self::Unloading(Arc::clone(&served));
                Some(served)
            }
            Self::Loading | Self::Failed { .. } => {
                *self = Self::Unloaded;
                None
            }
            Self::Unloading(_) | Self::Unloaded => None,
        }
    }

    /// Marks the end of `served`'s retirement, unless the version was loaded again in the meantime.
    pub(super) fn finish_unload(&mut self, served: &Arc<S>) {
        if matches!(self, Self::Unloading(retiring) if Arc::ptr_eq(retiring, served)) {
            *self = Self::Unloaded;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::VersionState;

    #[test]
    fn a_reload_never_interrupts_service() {
        let mut state = VersionState::Ready(Arc::new(1));
        state.begin_load();
        assert_eq!(state.serving().map(|served| **served), Some(1));
        state.fail_load("bad file".to_owned());
        assert_eq!(state.serving().map(|served| **served), Some(1));
        assert_eq!(state.finish_load(Arc::new(2)).map(|old| *old), Some(1));
        assert_eq!(state.serving().map(|served| **served), Some(2));
    }

    #[test]
    fn a_first_load_fails_and_then_succeeds() {
        let mut state: VersionState<u32> = VersionState::Unloaded;
        state.begin_load();
        assert!(matches!(state, VersionState::Loading));
        state.fail_load("no file".to_owned());
        assert!(matches!(&state, VersionState::Failed { reason } if reason == "no file"));
        state.begin_load();
        assert!(state.finish_load(Arc::new(1)).is_none());
    }

    #[test]
    fn each_version_is_returned_for_retirement_once() {
        let mut state = VersionState::Ready(Arc::new(1));
        let retiring = state.begin_unload().unwrap();
        assert!(state.begin_unload().is_none());
        assert!(state.finish_load(Arc::new(2)).is_none());
        state.finish_unload(&retiring);
        assert_eq!(state.serving().map(|served| **served), Some(2));
    }

    #[test]
    fn an_unload_ends_unloaded() {
        let mut state = VersionState::Ready(Arc::new(1));
        let retiring = state.begin_unload().unwrap();
        assert!(matches!(state, VersionState::Unloading(_)));
        state.finish_unload(&retiring);
        assert!(matches!(state, VersionState::Unloaded));
    }
}

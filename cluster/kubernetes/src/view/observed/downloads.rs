//! Downloads of pods in the observed state.

use super::{Observed, WatchedPod};
use crate::view::notes::{Downloads, FetchingPod};
use crate::watch::watch_cache::{Edit, Key};

impl Observed {
    /// Records whether a pod fetches its model, so that the pod is asked for its progress.
    pub(super) fn note_fetching(&self, edit: &Edit<WatchedPod>) {
        let mut fetching = self.notes.fetching.lock();
        if let Some(pod) = &edit.before {
            fetching.remove(&pod.key());
        }
        let after = edit.after.as_ref();
        if let Some((pod, address)) = after.and_then(|pod| Some((pod, pod.progress_address?))) {
            fetching.insert(pod.key(), FetchingPod { revision: pod.revision.clone(), address });
        }
    }

    /// Applies the progress that pods have reported. The other pods that fetch have none.
    pub(super) fn take_downloads(&mut self, downloads: &Downloads) {
        for key in self.notes.fetching.lock().keys() {
            let Some(pod) = self.pods.get_mut(key) else { continue };
            let download = downloads.get(key).cloned();
            if pod.replica.download != download {
                pod.replica.download = download;
                let replicas = self.replicas.entry(pod.revision.clone()).or_default();
                replicas.insert(pod.replica.clone());
                self.unpublished.revisions.insert(pod.revision.clone());
            }
        }
    }
}

impl WatchedPod {
    fn key(&self) -> Key {
        (self.revision.service().namespace().to_owned(), self.replica.name.to_string())
    }
}

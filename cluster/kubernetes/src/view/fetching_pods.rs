//! Pods that fetch their models before they serve, and their progress.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use weir_cluster::RevisionName;

use crate::watch::watch_cache::Key;

/// A pod that fetches its model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FetchingPod {
    pub(crate) revision: RevisionName,
    /// Address at which the pod reports its progress.
    pub(crate) address: SocketAddr,
}

/// Pods that fetch their models, by namespace and name.
pub(crate) type FetchingPods = BTreeMap<Key, FetchingPod>;

/// Texts about the downloads of pods, by namespace and name. A pod whose progress is unknown has none.
pub(crate) type Downloads = BTreeMap<Key, Arc<str>>;

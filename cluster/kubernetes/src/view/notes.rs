//! Observations of the watches that the code which writes objects needs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_cluster::RevisionName;

use crate::view::drift::Drift;
use crate::view::placements::Placements;
use crate::watch::watch_cache::Key;

/// Observations of the watches that the code which writes objects needs. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    /// Newest known versions of the services' objects.
    pub(crate) drift: Arc<Mutex<Drift>>,
    /// Placements of replicas, which decide the order of their deletion.
    pub(crate) placements: Arc<Mutex<Placements>>,
    /// Failure annotations of the revisions' Services, which gateways read.
    pub(crate) reported: Arc<Mutex<ReportedFailures>>,
    /// Pods that fetch their models.
    pub(crate) fetching: Arc<Mutex<FetchingPods>>,
}

/// Failure annotation of each revision's Service, as last watched or written; gateways read it.
#[derive(Debug, Default)]
pub(crate) struct ReportedFailures(BTreeMap<RevisionName, String>);

impl ReportedFailures {
    /// Records the failure annotation of a revision's Service; `None` if the Service has none.
    pub(crate) fn set(&mut self, revision: &RevisionName, text: Option<&str>) {
        match text {
            Some(text) => self.0.insert(revision.clone(), text.to_owned()),
            None => self.0.remove(revision),
        };
    }

    /// Returns true if the failure annotation of the revision's Service equals `text`; `None` stands for no annotation.
    pub(crate) fn is(&self, revision: &RevisionName, text: Option<&str>) -> bool {
        self.0.get(revision).map(String::as_str) == text
    }
}

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

//! Histories of services: one ControllerRevision per revision, and one more with the rollout's state.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weir_cluster::{ClusterError, RevisionName, ServiceName};
use weir_cluster_kubernetes::{Kubernetes, StoredHistory, StoredRevision};
use weir_controller::{History, LoadState, RevisionRecord, WrittenHistory};

/// Access to the stored histories, with a record of what the API server has.
#[derive(Clone)]
pub(crate) struct Histories {
    cluster: Kubernetes,
    stored: Arc<Mutex<BTreeMap<ServiceName, Stored>>>,
    /// Histories that [`Histories::prepare`] has loaded and [`Histories::load`] has not returned yet.
    prepared: Arc<Mutex<BTreeMap<ServiceName, StoredHistory>>>,
}

/// Parts of a history that the API server has stored.
#[derive(Clone, Default)]
struct Stored {
    revisions: Vec<RevisionName>,
    /// State of the rollout as JSON; None if it is not stored.
    written: Option<Arc<str>>,
}

impl Histories {
    pub(crate) fn new(cluster: Kubernetes) -> Self {
        Self { cluster, stored: Arc::default(), prepared: Arc::default() }
    }

    /// Loads the histories of these services together, and keeps each for the first [`Self::load`] of it.
    pub(crate) async fn prepare(&self, services: Vec<ServiceName>) -> Result<(), ClusterError> {
        let mut all = self.cluster.histories().await?;
        let each = services.into_iter().map(|service| {
            let history = all.remove(&service).unwrap_or_default();
            (service, history)
        });
        *self.prepared.lock() = each.collect();
        Ok(())
    }

    /// Loads the history of a service; None for a new service.
    pub(crate) async fn load(&self, service: &ServiceName) -> Result<Option<Arc<History>>, ClusterError> {
        let prepared = self.prepared.lock().remove(service);
        let StoredHistory { revisions, rollout } = match prepared {
            Some(prepared) => prepared,
            None => self.cluster.history(service).await?,
        };
        let written = rollout.and_then(|text| read(service, &text));
        let stored = Stored {
            revisions: revisions.values().map(|stored| stored.revision.clone()).collect(),
            written: written.as_ref().map(text),
        };
        self.stored.lock().insert(service.clone(), stored);
        let records: Vec<_> = revisions.into_values().map(record).collect();
        if records.is_empty() {
            return Ok(None);
        }
        let history = written.unwrap_or_default().history(service, records);
        Ok(Some(Arc::new(history)))
    }

    /// Stores a history: new revisions first, then the state in one write, and last it removes revisions that are gone.
    pub(crate) async fn store(&self, service: &ServiceName, history: &History) -> Result<(), ClusterError> {
        let stored = self.stored.lock().get(service).cloned().unwrap_or_default();
        let mut next = stored.clone();
        for record in &history.records {
            if !stored.revisions.contains(&record.revision) {
                self.cluster.put_revision(&revision(record)).await?;
                next.revisions.push(record.revision.clone());
            }
        }
        let written = text(&WrittenHistory::of(history));
        if stored.written.as_ref() != Some(&written) {
            match &stored.written {
                Some(_) => self.cluster.change_rollout(service, &written).await?,
                None => self.cluster.put_rollout(service, &written).await?,
            }
            next.written = Some(written);
        }
        for gone in &stored.revisions {
            if history.record(gone).is_none() {
                self.cluster.remove_revision(gone).await?;
                next.revisions.retain(|revision| revision != gone);
            }
        }
        self.stored.lock().insert(service.clone(), next);
        Ok(())
    }

    /// True if the service's revisions are stored but have no InferenceService any more.
    pub(crate) async fn is_orphaned(&self, service: &ServiceName) -> Result<bool, ClusterError> {
        self.cluster.is_orphaned(service).await
    }

    /// Drops the record of a deleted service.
    pub(crate) fn forget(&self, service: &ServiceName) {
        self.stored.lock().remove(service);
        self.prepared.lock().remove(service);
    }
}

/// Serializes a history as JSON, which cannot fail because a history holds only numbers, strings and lists.
fn text(written: &WrittenHistory) -> Arc<str> {
    serde_json::to_string(written).unwrap_or_default().into()
}

fn read(service: &ServiceName, text: &str) -> Option<WrittenHistory> {
    let read = serde_json::from_str(text);
    read.inspect_err(|error| {
        tracing::warn!(%service, %error, "cannot read the state of the rollout; starting over with the manifest");
    })
    .ok()
}

fn record(stored: StoredRevision) -> RevisionRecord {
    RevisionRecord {
        revision: stored.revision,
        template: stored.template,
        storage: stored.storage,
        identity: stored.identity,
        manifest: None,
        ready_call: stored.ready_call,
        load: LoadState::Never,
        is_failing: false,
        desired_replicas: 0,
    }
}

fn revision(record: &RevisionRecord) -> StoredRevision {
    StoredRevision {
        revision: record.revision.clone(),
        template: record.template.clone(),
        storage: record.storage.clone(),
        identity: record.identity.clone(),
        ready_call: record.ready_call,
    }
}

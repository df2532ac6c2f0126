//! Rollout in progress as it is stored over a restart: its stage, and the pods of its revisions. The manifest only has
//! the newest revision's.

use std::collections::BTreeMap;
use std::path::PathBuf;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Serialize};
use weir_cluster::{ServiceName, Storage};

use crate::history::{History, RevisionRecord, WrittenHistory};

/// Rollout in progress, with the pods of its revisions by number.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct StoredRollout {
    history: WrittenHistory,
    pods: BTreeMap<u32, StoredPod>,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredPod {
    template: PodTemplateSpec,
    storage: Vec<StoredStorage>,
    desired_replicas: u32,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredStorage {
    uri: String,
    mount_path: String,
    claims: Option<PathBuf>,
}

impl StoredRollout {
    /// Returns the rollout of a service, if one is in progress.
    pub(super) fn of(history: &History) -> Option<Self> {
        let rollout = &history.rollout;
        rollout.stable.as_ref().zip(rollout.candidate.as_ref())?;
        let records = rollout.revisions().filter_map(|name| history.record(name));
        let pod = |record: &RevisionRecord| (record.revision.number(), StoredPod::of(record));
        Some(Self { history: WrittenHistory::of(history), pods: records.map(pod).collect() })
    }

    /// Restores the rollout in a history that has its revisions' numbers. A rollout of an unknown revision is dropped,
    /// and the service then begins with its manifest.
    pub(super) fn restore(mut self, service: &ServiceName, history: &mut History) {
        let mut records = history.records.clone();
        for record in &mut records {
            if let Some(pod) = self.pods.remove(&record.revision.number()) {
                pod.restore(record);
            }
        }
        let restored = self.history.history(service, records);
        if self.pods.is_empty() && restored.rollout.candidate.is_some() {
            *history = restored;
        }
    }
}

impl StoredPod {
    fn of(record: &RevisionRecord) -> Self {
        let storage = |storage: &Storage| StoredStorage {
            uri: storage.uri.to_string(),
            mount_path: storage.mount_path.to_string(),
            claims: storage.claims.clone(),
        };
        Self {
            template: record.template.read(),
            storage: record.storage.iter().map(storage).collect(),
            desired_replicas: record.desired_replicas,
        }
    }

    fn restore(self, record: &mut RevisionRecord) {
        let storage = |stored: StoredStorage| Storage {
            uri: stored.uri.into(),
            mount_path: stored.mount_path.into(),
            claims: stored.claims,
        };
        record.template = self.template.into();
        record.storage = self.storage.into_iter().map(storage).collect();
        record.desired_replicas = self.desired_replicas;
    }
}

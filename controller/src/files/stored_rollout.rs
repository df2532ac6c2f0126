//! A rollout under way as it is kept over a restart: the stage, and what is needed to run each of its revisions. The
//! manifest has the newest one only.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::{Deserialize, Serialize};
use weir_cluster::{RevisionName, ServiceName, Storage};

use crate::history::{History, LoadState, RevisionRecord};
use crate::rollout::{Candidate, PreviousRevision, Rollout, Stage};

/// A rollout under way. Revisions are given by their numbers, times in seconds since 1970.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct StoredRollout {
    stable: u32,
    candidate: StoredCandidate,
    previous: Option<StoredPrevious>,
    kept_replicas: u32,
    /// What runs as each of these revisions.
    pods: BTreeMap<u32, StoredPod>,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredCandidate {
    number: u32,
    stage: StoredStage,
    since: u64,
}

/// [`Stage`] in the file.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum StoredStage {
    Waiting,
    Shifting(usize),
    RolledBack(String),
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredPrevious {
    number: u32,
    since: u64,
    kept_replicas: u32,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredPod {
    template: PodTemplateSpec,
    storage: Vec<StoredStorage>,
    load: StoredLoad,
    desired_replicas: u32,
}

/// [`LoadState`] in the file; after a restart nothing runs.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum StoredLoad {
    Never,
    Once,
}

#[derive(Debug, Deserialize, Serialize)]
struct StoredStorage {
    uri: String,
    mount_path: String,
    claims: Option<PathBuf>,
}

impl StoredRollout {
    /// The rollout of a service, if one is under way.
    pub(super) fn of(history: &History) -> Option<Self> {
        let rollout = &history.rollout;
        let (stable, candidate) = rollout.stable.as_ref().zip(rollout.candidate.as_ref())?;
        let records = rollout.revisions().filter_map(|name| history.record(name));
        let pod = |record: &RevisionRecord| (record.revision.number(), StoredPod::of(record));
        Some(Self {
            stable: stable.number(),
            candidate: StoredCandidate {
                number: candidate.revision.number(),
                stage: StoredStage::of(&candidate.stage),
                since: candidate.since,
            },
            previous: rollout.previous.as_ref().map(|previous| StoredPrevious {
                number: previous.revision.number(),
                since: previous.since,
                kept_replicas: previous.kept_replicas,
            }),
            kept_replicas: rollout.kept_replicas,
            pods: records.map(pod).collect(),
        })
    }

    /// Puts the rollout into a history that has its revisions' numbers. One that names another revision is left out:
    /// the service then begins with its manifest.
    pub(super) fn restore(self, service: &ServiceName, history: &mut History) {
        let known = |number: u32| {
            let name = service.revision(number).ok()?;
            let is_known = history.record(&name).is_some() && self.pods.contains_key(&number);
            is_known.then_some(name)
        };
        let (Some(stable), Some(candidate)) = (known(self.stable), known(self.candidate.number))
        else {
            return;
        };
        let previous = self.previous.and_then(|previous| {
            Some(PreviousRevision {
                revision: known(previous.number)?,
                since: previous.since,
                kept_replicas: previous.kept_replicas,
            })
        });
        history.rollout = Rollout {
            stable: Some(stable),
            previous,
            candidate: Some(self.candidate.restored(candidate)),
            kept_replicas: self.kept_replicas,
            ..Rollout::default()
        };
        for (number, pod) in self.pods {
            let mut records = history.records.iter_mut();
            if let Some(record) = records.find(|record| record.revision.number() == number) {
                pod.restore(record);
            }
        }
    }
}

impl StoredCandidate {
    fn restored(self, revision: RevisionName) -> Candidate {
        Candidate {
            revision,
            stage: match self.stage {
                StoredStage::Waiting => Stage::Waiting,
                StoredStage::Shifting(step) => Stage::Shifting(step),
                StoredStage::RolledBack(reason) => Stage::RolledBack(reason.into()),
            },
            since: self.since,
        }
    }
}

impl StoredStage {
    fn of(stage: &Stage) -> Self {
        match stage {
            Stage::Waiting => Self::Waiting,
            Stage::Shifting(step) => Self::Shifting(*step),
            Stage::RolledBack(reason) => Self::RolledBack(reason.to_string()),
        }
    }
}

impl StoredLoad {
    fn of(load: LoadState) -> Self {
        match load {
            LoadState::Never => Self::Never,
            LoadState::Once | LoadState::Now => Self::Once,
        }
    }
}

impl From<StoredLoad> for LoadState {
    fn from(load: StoredLoad) -> Self {
        match load {
            StoredLoad::Never => Self::Never,
            StoredLoad::Once => Self::Once,
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
            template: PodTemplateSpec::clone(&record.template),
            storage: record.storage.iter().map(storage).collect(),
            load: StoredLoad::of(record.load),
            desired_replicas: record.desired_replicas,
        }
    }

    fn restore(self, record: &mut RevisionRecord) {
        let storage = |stored: StoredStorage| Storage {
            uri: stored.uri.into(),
            mount_path: stored.mount_path.into(),
            claims: stored.claims,
        };
        record.template = Arc::new(self.template);
        record.storage = self.storage.into_iter().map(storage).collect();
        record.desired_replicas = self.desired_replicas;
        record.load = self.load.into();
    }
}

//! What the controller remembers of a service: its revisions, and how far the rollout is.

mod revise;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use weir_cluster::{Identity, RevisionName, Snapshot, Storage, Tag};

use crate::{Evidence, Rollout, Sample};

pub use revise::revise;

/// A service's past. [`revise`] and [`crate::step`] make the next one of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The revisions, oldest first.
    pub records: Vec<Record>,
    /// How far the rollout is.
    pub rollout: Rollout,
    /// The canaries of the manifest and their revisions.
    pub canaries: Vec<Canary>,
}

/// A revision, so that an equal one is known again.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// Its name.
    pub revision: RevisionName,
    /// Its pod.
    pub template: Arc<PodTemplateSpec>,
    /// Its models.
    pub storage: Vec<Storage>,
    /// A hash of both.
    pub identity: Identity,
    /// Whether it has shown that it can serve.
    pub loaded: Loaded,
    /// Replicas that were last asked for.
    pub wanted: u32,
}

/// Whether a revision was ready since it last came into service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Loaded {
    /// Not yet.
    Never,
    /// It was, and is not at the moment.
    Once,
    /// It is.
    Now,
}

/// A canary of the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Its name.
    pub tag: Tag,
    /// Its revision.
    pub revision: RevisionName,
}

impl History {
    /// Notes what the cluster says of the revisions. What is out of service has to show anew that it
    /// can serve.
    #[must_use]
    pub fn observed(mut self, snapshot: &Snapshot) -> Self {
        let mut records = std::mem::take(&mut self.records);
        for record in &mut records {
            let revision = snapshot.revision(&record.revision);
            record.wanted = revision.map_or(record.wanted, |revision| revision.desired);
            let is_ready = revision.is_some_and(|r| r.ready().next().is_some());
            record.loaded = match (self.is_in_use(&record.revision), is_ready) {
                (true, true) => Loaded::Now,
                (true, false) => record.loaded.min(Loaded::Once),
                (false, _) => Loaded::Never,
            };
        }
        self.records = records;
        self
    }

    /// What the cluster and samples of two revisions' work say, for [`crate::step`].
    #[must_use]
    pub fn evidence(
        &self,
        snapshot: &Snapshot,
        samples: &BTreeMap<RevisionName, Sample>,
    ) -> Evidence {
        let ready = self.rollout.revisions().filter(|name| {
            let revision = snapshot.revision(name);
            revision.is_some_and(|revision| revision.ready().next().is_some())
        });
        let sample = |name: Option<&RevisionName>| {
            let found = name.and_then(|name| samples.get(name));
            found.copied().unwrap_or_default()
        };
        let candidate = self.rollout.candidate.as_ref();
        Evidence {
            ready: ready.cloned().collect(),
            candidate: sample(candidate.map(|c| &c.revision)),
            stable: sample(self.rollout.stable.as_ref()),
        }
    }

    /// The record of a revision.
    #[must_use]
    pub fn record(&self, revision: &RevisionName) -> Option<&Record> {
        self.records.iter().find(|r| r.revision == *revision)
    }

    /// Whether a revision has shown that it can serve.
    #[must_use]
    pub fn has_loaded(&self, revision: &RevisionName) -> bool {
        let record = self.record(revision);
        record.is_some_and(|record| record.loaded != Loaded::Never)
    }

    /// Whether a revision has a part in the rollout, or is a canary's.
    #[must_use]
    pub fn is_in_use(&self, revision: &RevisionName) -> bool {
        let mut canaries = self.canaries.iter().map(|canary| &canary.revision);
        self.rollout.revisions().any(|used| used == revision)
            || canaries.any(|used| used == revision)
    }
}

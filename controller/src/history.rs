//! History of a service: its revisions and the state of its rollout.

mod revise;
#[cfg(test)]
mod tests;
mod written;

use std::collections::BTreeMap;
use std::time::Duration;

use weir_cluster::{Identity, PodTemplate, ReadyCall, Revision, RevisionName, Snapshot, Storage, Tag};

use crate::manifest::validate::{CanaryVariant, Validated, Variant};
use crate::rollout::{CanaryEvidence, CanaryService, CanaryShare, Capacity, Evidence, Placement, Rollout, Sample};

pub use revise::{RuntimeChange, revise};
pub use written::WrittenHistory;

/// Revisions and rollout of a service, from which [`revise`] and [`crate::step`] compute the next state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The revisions, oldest first.
    pub records: Vec<RevisionRecord>,
    /// Stable revision, candidate and previous revision.
    pub rollout: Rollout,
    /// Canaries of the manifest with their revisions.
    pub canaries: Vec<Canary>,
    /// Last revision that a changed runtime made; None if there is none in use.
    pub runtime_roll: Option<RuntimeRoll>,
}

/// Revision that was made because a runtime changed, and not the manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeRoll {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Creation time of the revision, in seconds since 1970.
    pub since: u64,
}

/// Revision with the hash by which an equal one is recognised.
#[derive(Clone, Debug, PartialEq)]
pub struct RevisionRecord {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Template of the revision's pods.
    pub template: PodTemplate,
    /// Models mounted into the pods.
    pub storage: Vec<Storage>,
    /// Hash of the template and the storage.
    pub identity: Identity,
    /// Hash of the manifest's fields that shape the pods; None if it was not stored.
    pub manifest: Option<Identity>,
    /// Readiness check of a replica, if the runtime declares one.
    pub ready_call: Option<ReadyCall>,
    /// Evidence that the model loads.
    pub load: LoadState,
    /// True while replicas are desired but none runs because they fail. Each controller observes this again, so it is
    /// not stored.
    pub is_failing: bool,
    /// Last desired number of replicas.
    pub desired_replicas: u32,
}

/// Readiness of a revision since it last came into use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LoadState {
    /// No replica has been ready since the revision came into use.
    Never,
    /// A replica has been ready since the revision came into use, but none is ready now.
    Once,
    /// A replica is ready now.
    Now,
}

/// A canary of the manifest and its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canary {
    /// Name of the canary's predictor.
    pub tag: Tag,
    /// Revision that the tag leads to.
    pub revision: RevisionName,
    /// The canary's share of the requests, and how far it has grown.
    pub progress: CanaryShare,
}

impl History {
    /// Updates the records from the cluster. A revision that went out of use must load again before it counts as
    /// loaded.
    #[must_use]
    pub fn observed(mut self, snapshot: &Snapshot) -> Self {
        let mut records = std::mem::take(&mut self.records);
        for record in &mut records {
            let revision = snapshot.revision(&record.revision);
            // A revision of the same name with another identity belongs to a deleted service, and is being removed.
            let revision = revision.filter(|revision| revision.identity == record.identity);
            let desired = revision.map(|revision| revision.desired);
            record.desired_replicas = desired.unwrap_or(record.desired_replicas);
            let is_ready = revision.is_some_and(|r| r.ready().next().is_some());
            let fails = revision.is_some_and(|r| r.failure.is_some() && r.desired > 0);
            record.is_failing = fails && !is_ready;
            record.load = if !self.is_in_use(&record.revision) {
                LoadState::Never
            } else if is_ready {
                LoadState::Now
            } else {
                record.load.min(LoadState::Once)
            };
        }
        self.records = records;
        self
    }

    /// Moves start times that lie in the future to `now`. They come from an earlier controller whose clock was ahead,
    /// and timers that start at them would run too long.
    #[must_use]
    pub fn begun_by(mut self, now: u64) -> Self {
        let rollout = &mut self.rollout;
        let candidate = rollout.candidate.as_mut().map(|one| &mut one.since);
        let previous = rollout.previous.as_mut().map(|one| &mut one.since);
        let roll = self.runtime_roll.as_mut().map(|one| &mut one.since);
        let canaries = self.canaries.iter_mut().map(|canary| &mut canary.progress.since);
        for since in [candidate, previous, roll].into_iter().flatten().chain(canaries) {
            *since = now.min(*since);
        }
        self
    }

    /// Returns the evidence for [`crate::step`], from the cluster and the samples of both revisions. The caller adds
    /// the candidate's maximum and the time for which the stage was observed.
    #[must_use]
    pub fn evidence(&self, snapshot: &Snapshot, samples: &BTreeMap<RevisionName, Sample>) -> Evidence {
        let capacities = self.rollout.revisions().filter_map(|name| {
            let revision = snapshot.revision(name)?;
            Some((name.clone(), capacity(revision)))
        });
        let sample = |name: Option<&RevisionName>| {
            let found = name.and_then(|name| samples.get(name));
            found.copied().unwrap_or_default()
        };
        let candidate = self.rollout.candidate.as_ref();
        Evidence {
            capacities: capacities.collect(),
            most: None,
            candidate: sample(candidate.map(|c| &c.revision)),
            stable: sample(self.rollout.stable.as_ref()),
            watched: Duration::ZERO,
        }
    }

    /// Updates the share of each named canary to what its ready replicas can take. `now` is in seconds since 1970.
    #[must_use]
    pub fn with_canary_shares(mut self, validated: &Validated, snapshot: &Snapshot, now: u64) -> Self {
        let shares = self.canaries.iter().zip(&validated.canaries).map(|(canary, declared)| {
            let evidence = self.canary_evidence(canary, declared, snapshot, now);
            canary.progress.next(declared.percent, &evidence, now)
        });
        let shares: Vec<_> = shares.collect();
        for (canary, progress) in self.canaries.iter_mut().zip(shares) {
            canary.progress = progress;
        }
        self
    }

    fn canary_evidence(
        &self,
        canary: &Canary,
        declared: &CanaryVariant,
        snapshot: &Snapshot,
        now: u64,
    ) -> CanaryEvidence {
        let replicas = |name: Option<&RevisionName>| {
            let revision = name.and_then(|name| snapshot.revision(name));
            revision.map_or_else(Capacity::default, |revision| capacity(revision))
        };
        let stable = replicas(self.rollout.stable.as_ref());
        let candidate = replicas(self.rollout.candidate.as_ref().map(|candidate| &candidate.revision));
        CanaryEvidence {
            service: self.canary_service(&canary.revision),
            own: replicas(Some(&canary.revision)),
            stable,
            needed: self.rollout.measured(stable.desired, candidate.desired, now),
            most: declared.variant.scaling.policy.max,
        }
    }

    fn canary_service(&self, revision: &RevisionName) -> CanaryService {
        match self.record(revision) {
            Some(record) if record.load == LoadState::Never => CanaryService::NotLoaded,
            Some(record) if record.is_failing => CanaryService::Failing,
            Some(_) => CanaryService::Loaded,
            None => CanaryService::NotLoaded,
        }
    }

    /// Returns true if the manifest describes other pods than the newest revisions have.
    #[must_use]
    pub fn is_behind(&self, validated: &Validated) -> bool {
        let differs = |revision: &RevisionName, variant: &Variant| {
            let record = self.record(revision).filter(|_| variant.has_pods);
            record.is_some_and(|record| !record.has_pods_of(variant))
        };
        let newest = self.rollout.newest();
        let mut canaries = self.canaries.iter().zip(&validated.canaries);
        newest.is_some_and(|newest| differs(newest, &validated.predictor))
            || canaries.any(|(canary, of)| differs(&canary.revision, &of.variant))
    }

    /// Makes the records share the manifest's templates where they are equal. After a restart each record has its own
    /// copy, and there are thousands.
    pub(crate) fn share_templates(&mut self, validated: &Validated) {
        let canaries = validated.canaries.iter().map(|canary| &canary.variant);
        for variant in canaries.chain([&validated.predictor]) {
            let records = self.records.iter_mut();
            records
                .filter(|record| record.template == variant.template)
                .for_each(|record| record.template = variant.template.clone());
        }
    }

    /// Returns the record of a revision.
    #[must_use]
    pub fn record(&self, revision: &RevisionName) -> Option<&RevisionRecord> {
        self.records.iter().find(|r| r.revision == *revision)
    }

    /// Returns true if a revision has loaded since it came into use.
    #[must_use]
    pub fn has_loaded(&self, revision: &RevisionName) -> bool {
        let record = self.record(revision);
        record.is_some_and(|record| record.load != LoadState::Never)
    }

    /// Returns true if a revision belongs to the rollout or to a canary.
    #[must_use]
    pub fn is_in_use(&self, revision: &RevisionName) -> bool {
        let mut canaries = self.canaries.iter().map(|canary| &canary.revision);
        self.rollout.revisions().any(|used| used == revision) || canaries.any(|used| used == revision)
    }
}

/// Returns the ready and desired replicas of a revision.
fn capacity(revision: &Revision) -> Capacity {
    let ready = revision.ready().count();
    Capacity {
        ready: u32::try_from(ready).unwrap_or(u32::MAX),
        desired: revision.desired,
        placement: match revision.unplaced {
            Some(_) => Placement::Lacking,
            None => Placement::Complete,
        },
    }
}

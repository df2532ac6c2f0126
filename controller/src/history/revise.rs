//! Assignment of revisions to the predictor and the canaries of a manifest.

use weir_cluster::{ClusterError, RevisionName, Storage};

use super::{Canary, History, LoadState, RevisionRecord, RuntimeRoll};
use crate::manifest::validate::{Validated, Variant};
use crate::rollout::{CanaryShare, Candidate, Rollout, Stage, Strategy, promote};

/// Number of unused revisions that are kept: the default of Kubernetes' `revisionHistoryLimit`.
const HISTORY_LIMIT: usize = 10;

/// Treatment of a service whose runtime changed while its manifest did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeChange {
    /// The service gets a new revision.
    Follow,
    /// The service keeps the revision that it has.
    Hold,
}

/// Assigns a revision to the predictor and to each canary: an existing one with equal template and storage, or else a
/// new one with the next number. If only the runtime changed and the change is held, or if the pods cannot be made now,
/// it is the revision that was made from the same manifest. `now` is in seconds since 1970.
///
/// # Errors
/// [`ClusterError::Name`] after 99999 revisions, [`ClusterError::Refused`] if pods cannot be made and none were made
/// before.
pub fn revise(
    validated: &Validated,
    history: &History,
    change: RuntimeChange,
    now: u64,
) -> Result<History, ClusterError> {
    let mut next = history.clone();
    let target = next.revision_of(validated, &validated.predictor, change, now)?;
    let mut canaries = Vec::new();
    for canary in &validated.canaries {
        let revision = next.revision_of(validated, &canary.variant, change, now)?;
        let mut known = next.canaries.iter().filter(|known| known.revision == revision);
        let progress = known.next().map_or_else(|| CanaryShare::new(now), |known| known.progress);
        canaries.push(Canary { tag: canary.tag.clone(), revision, progress });
    }
    next.canaries = canaries;
    next.set_target(target, now);
    next.rollout.strategy = validated.strategy.clone();
    next.rollout.rollback_window = validated.rollback_window;
    next.trim();
    next.forget_ended_roll();
    Ok(next)
}

impl History {
    fn revision_of(
        &mut self,
        validated: &Validated,
        variant: &Variant,
        change: RuntimeChange,
        now: u64,
    ) -> Result<RevisionName, ClusterError> {
        let before = self.of_same_manifest(variant);
        if let Some(record) = self.of_same_pods(variant) {
            record.follow(variant);
            return Ok(record.revision.clone());
        }
        let is_held = change == RuntimeChange::Hold || !variant.has_pods;
        if let Some(before) = before.as_ref().filter(|_| is_held) {
            return Ok(before.clone());
        }
        let revision = self.add(validated, variant)?;
        if before.is_some() {
            self.runtime_roll = Some(RuntimeRoll { revision: revision.clone(), since: now });
        }
        Ok(revision)
    }

    /// Returns the newest revision with these pods, found by hash or else by meaning.
    fn of_same_pods(&mut self, variant: &Variant) -> Option<&mut RevisionRecord> {
        let records = &self.records;
        let by_hash = records.iter().rposition(|record| record.identity == variant.identity);
        let found = by_hash.or_else(|| records.iter().rposition(|record| record.has_pods_of(variant)));
        self.records.get_mut(found?)
    }

    /// Returns true if every variant whose pods cannot be made now has a revision in use.
    pub(crate) fn has_pods_of(&self, validated: &Validated) -> bool {
        let canaries = validated.canaries.iter().map(|canary| &canary.variant);
        let all = canaries.chain([&validated.predictor]);
        let mut without = all.filter(|variant| !variant.has_pods);
        without.all(|variant| self.of_same_manifest(variant).is_some())
    }

    /// Returns the newest revision in use that was made from the same manifest, possibly with another runtime.
    fn of_same_manifest(&self, variant: &Variant) -> Option<RevisionName> {
        let mut newest_first = self.records.iter().rev();
        let found = newest_first.find(|record| {
            let manifest = record.manifest.as_ref();
            manifest.is_some_and(|manifest| variant.is_of_manifest(manifest)) && self.is_in_use(&record.revision)
        });
        found.map(|record| record.revision.clone())
    }

    /// Adds a revision with the next number.
    fn add(&mut self, validated: &Validated, variant: &Variant) -> Result<RevisionName, ClusterError> {
        if !variant.has_pods {
            let because = "no runtime defines its pods";
            return Err(ClusterError::refused(&validated.service, because));
        }
        let last = self.records.iter().map(|record| record.revision.number());
        let number = last.max().unwrap_or(0) + 1;
        let revision = validated.service.revision(number)?;
        self.records.push(RevisionRecord {
            revision: revision.clone(),
            template: variant.template.clone(),
            storage: variant.storage.clone(),
            identity: variant.identity.clone(),
            manifest: Some(variant.manifest.meaning.clone()),
            ready_call: variant.ready_call,
            load: LoadState::Never,
            is_failing: false,
            desired_replicas: 0,
        });
        Ok(revision)
    }

    /// Starts the rollout of a revision. A stable revision that never loaded is replaced at once.
    fn set_target(&mut self, target: RevisionName, now: u64) {
        if self.rollout.candidate.as_ref().is_some_and(|c| c.revision != target) {
            self.replace_whole(now);
            self.replace_broken();
        }
        let stable = self.rollout.stable.clone();
        let has_served = stable.as_ref().is_some_and(|s| self.has_loaded(s));
        let candidate = self.rollout.candidate.as_ref().map(|c| &c.revision);
        if !has_served || stable.as_ref() == Some(&target) {
            self.rollout.stable = Some(target);
            self.rollout.candidate = None;
        } else if candidate != Some(&target) {
            let desired = |revision: Option<&RevisionName>| {
                let record = revision.and_then(|revision| self.record(revision));
                record.map_or(0, |record| record.desired_replicas)
            };
            let measured = self.rollout.measured(desired(stable.as_ref()), desired(candidate), now);
            self.rollout.begin(target, measured, now);
        }
        self.rollout.clear_reused_previous();
    }

    /// Promotes a ready candidate to which the manifest sends all requests, before a new candidate replaces it. KServe
    /// also counts such a candidate as rolled out when the next one arrives, so requests fall back to it, and not to
    /// the revision before it. Until then, a lower `canaryTrafficPercent` still returns requests to the stable
    /// revision.
    fn replace_whole(&mut self, now: u64) {
        let rollout = &self.rollout;
        let is_asked = matches!(rollout.strategy, Strategy::Manual(Some(100)));
        let is_up = |name: &RevisionName| self.record(name).is_some_and(|r| r.load == LoadState::Now);
        if let Some(candidate) = &rollout.candidate
            && is_asked
            && rollout.percent() == 100
            && is_up(&candidate.revision)
        {
            (self.rollout, _) = promote(rollout, candidate, now);
        }
    }

    /// Promotes a candidate with traffic over a stable revision whose replicas are all down, before a new candidate
    /// replaces it: otherwise no revision would serve.
    fn replace_broken(&mut self) {
        let rollout = &self.rollout;
        let loaded = |name: &RevisionName| self.record(name).map(|r| (r.load, r.desired_replicas));
        let stable = rollout.stable.as_ref().and_then(loaded);
        let is_broken = stable.is_some_and(|(load, desired)| load != LoadState::Now && desired > 0);
        let candidate = rollout.candidate.as_ref().map(|c| &c.revision);
        let serves = candidate.and_then(loaded).is_some_and(|(load, _)| load == LoadState::Now);
        if is_broken && serves && rollout.percent() > 0 {
            self.rollout.stable = candidate.cloned();
            self.rollout.candidate = None;
        }
    }

    /// Forgets the last revision that a changed runtime made, once it is out of use.
    fn forget_ended_roll(&mut self) {
        let roll = self.runtime_roll.take();
        self.runtime_roll = roll.filter(|roll| self.is_in_use(&roll.revision));
    }

    /// Drops the oldest unused records beyond the limit. The newest record always stays, because numbering continues
    /// from it.
    fn trim(&mut self) {
        let unused = |record: &&RevisionRecord| !self.is_in_use(&record.revision);
        let surplus = self.records.iter().filter(unused).count();
        let mut surplus = surplus.saturating_sub(HISTORY_LIMIT);
        let newest = self.records.iter().map(|r| r.revision.number()).max();
        let keep: Vec<bool> = self
            .records
            .iter()
            .map(|record| {
                let is_newest = Some(record.revision.number()) == newest;
                let goes = surplus > 0 && unused(&record) && !is_newest;
                surplus -= usize::from(goes);
                !goes
            })
            .collect();
        let mut keep = keep.into_iter();
        self.records.retain(|_| keep.next().unwrap_or(true));
    }
}

impl RevisionRecord {
    /// Returns true if a variant has the same pods as this revision, even if they are written differently.
    pub(super) fn has_pods_of(&self, variant: &Variant) -> bool {
        let places = |storage: &[Storage]| -> Vec<_> {
            let places = storage.iter();
            places.map(|at| (at.uri.clone(), at.mount_path.clone())).collect()
        };
        self.identity == variant.identity
            || (variant.has_pods
                && places(&self.storage) == places(&variant.storage)
                && self.template.is_equivalent(&variant.template))
    }

    /// Takes over the fields that may change without changing the pods. A template that is written differently but
    /// means the same is not taken over, because a running revision keeps its text.
    fn follow(&mut self, variant: &Variant) {
        // The claims' folder moves with the manifest; after a restart only the hash is known.
        self.storage.clone_from(&variant.storage);
        if self.identity == variant.identity {
            self.template.clone_from(&variant.template);
        }
        let known = self.manifest.as_ref();
        if !known.is_some_and(|manifest| variant.is_of_manifest(manifest)) {
            self.manifest = Some(variant.manifest.meaning.clone());
        }
        self.ready_call = variant.ready_call;
    }
}

impl Rollout {
    /// Begins the rollout of a new candidate. If another candidate had a share of the requests, the stable revision
    /// gets them back and keeps the replicas that all requests need.
    fn begin(&mut self, revision: RevisionName, measured: u32, now: u64) {
        let is_held = self.holds(now).any(|hold| Some(&hold.revision) == self.stable.as_ref());
        let gets_requests_back = self.percent() > 0;
        self.needed_replicas = if is_held || gets_requests_back { measured } else { 0 };
        self.candidate = Some(Candidate::new(revision, Stage::Waiting, now));
    }

    /// Clears the previous revision if it is stable or candidate again.
    fn clear_reused_previous(&mut self) {
        let taken = |name: &RevisionName| {
            let candidate = self.candidate.as_ref().map(|c| &c.revision);
            self.stable.as_ref() == Some(name) || candidate == Some(name)
        };
        if self.previous.as_ref().is_some_and(|previous| taken(&previous.revision)) {
            self.previous = None;
        }
    }
}

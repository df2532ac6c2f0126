//! Which revision is which.

use weir_cluster::{ClusterError, RevisionName};

use super::{Canary, History, Loaded, Record};
use crate::rollout::{Candidate, Rollout, Stage};
use crate::{Validated, Variant};

/// Revisions that are remembered though nothing of them runs: Kubernetes' `revisionHistoryLimit`.
const REMEMBERED: usize = 10;

/// Gives what a manifest asks for its revisions: those that were there before, where they are the same,
/// else new ones with the next numbers. `now` is in seconds since 1970.
///
/// # Errors
/// [`ClusterError::Name`] after 99999 revisions.
pub fn revise(valid: &Validated, history: &History, now: u64) -> Result<History, ClusterError> {
    let mut next = history.clone();
    let target = next.revision_of(valid, &valid.predictor)?;
    next.canaries = Vec::new();
    let mut canaries = Vec::new();
    for canary in &valid.canaries {
        canaries.push(Canary {
            tag: canary.tag.clone(),
            revision: next.revision_of(valid, &canary.variant)?,
        });
    }
    next.canaries = canaries;
    next.aim(target, now);
    next.rollout.strategy = valid.strategy.clone();
    next.trim();
    Ok(next)
}

impl History {
    fn revision_of(
        &mut self,
        valid: &Validated,
        variant: &Variant,
    ) -> Result<RevisionName, ClusterError> {
        let identity = variant.identity.clone();
        let mut newest_first = self.records.iter_mut().rev();
        if let Some(record) = newest_first.find(|record| record.identity == identity) {
            // The same files, though the manifest may have moved and its claims with it. Of one that outlived a
            // restart only the hash is known.
            record.storage.clone_from(&variant.storage);
            record.template.clone_from(&variant.template);
            return Ok(record.revision.clone());
        }
        let last = self.records.iter().map(|record| record.revision.number());
        let number = last.max().unwrap_or(0) + 1;
        let revision = valid.service.revision(number)?;
        self.records.push(Record {
            revision: revision.clone(),
            template: variant.template.clone(),
            storage: variant.storage.clone(),
            identity,
            loaded: Loaded::Never,
            wanted: 0,
        });
        Ok(revision)
    }

    /// Makes a revision the one to come. A stable one that never loaded has nothing to lose: it is
    /// replaced at once.
    fn aim(&mut self, target: RevisionName, now: u64) {
        if self
            .rollout
            .candidate
            .as_ref()
            .is_some_and(|c| c.revision != target)
        {
            self.replace_broken();
        }
        let stable = self.rollout.stable.clone();
        let has_served = stable.as_ref().is_some_and(|s| self.has_loaded(s));
        let candidate = self.rollout.candidate.as_ref().map(|c| &c.revision);
        if !has_served || stable.as_ref() == Some(&target) {
            self.rollout.stable = Some(target);
            self.rollout.candidate = None;
        } else if candidate != Some(&target) {
            let record = stable.as_ref().and_then(|stable| self.record(stable));
            let kept = record.map_or(0, |record| record.wanted);
            self.rollout.begin(target, kept, now);
        }
        self.rollout.forget_taken();
    }

    /// A candidate that serves part of the requests takes the place of a stable revision that should
    /// run and serves none, before another candidate takes its own: else nobody served.
    fn replace_broken(&mut self) {
        let rollout = &self.rollout;
        let loaded = |name: &RevisionName| self.record(name).map(|r| (r.loaded, r.wanted));
        let stable = rollout.stable.as_ref().and_then(loaded);
        let is_broken = stable.is_some_and(|(loaded, wanted)| loaded != Loaded::Now && wanted > 0);
        let candidate = rollout.candidate.as_ref().map(|c| &c.revision);
        let serves = candidate
            .and_then(loaded)
            .is_some_and(|(l, _)| l == Loaded::Now);
        if is_broken && serves && rollout.percent() > 0 {
            self.rollout.stable = candidate.cloned();
            self.rollout.candidate = None;
        }
    }

    /// Drops the oldest records that are of no use, but for the last few. The newest stays in any case:
    /// numbers go on from it.
    fn trim(&mut self) {
        let unused = |record: &&Record| !self.is_in_use(&record.revision);
        let surplus = self.records.iter().filter(unused).count();
        let mut surplus = surplus.saturating_sub(REMEMBERED);
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

impl Rollout {
    fn begin(&mut self, revision: RevisionName, kept: u32, now: u64) {
        // One that is under way already keeps what it promised the stable revision.
        self.kept = match &self.candidate {
            Some(_) => self.kept.max(kept),
            None => kept,
        };
        self.candidate = Some(Candidate {
            revision,
            stage: Stage::Waiting,
            since: now,
        });
    }

    /// A former revision that is in service again is no former one.
    fn forget_taken(&mut self) {
        let taken = |name: &RevisionName| {
            let candidate = self.candidate.as_ref().map(|c| &c.revision);
            self.stable.as_ref() == Some(name) || candidate == Some(name)
        };
        if self
            .previous
            .as_ref()
            .is_some_and(|former| taken(&former.revision))
        {
            self.previous = None;
        }
    }
}

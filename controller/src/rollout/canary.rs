//! The share of a named canary, an entry of `spec.canary`: by the rule of a candidate's, as far as its ready replicas allow.

#[cfg(test)]
mod tests;

use std::time::Duration;

use super::hold::SETTLED;
use super::share::{LONGEST_WAIT, Replicas, fair_percent, part, whole};
use super::{CandidateShare, Capacity};

/// Share of a named canary and its progress. Times are in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CanaryShare {
    /// Share of the requests that the canary gets.
    pub share: CandidateShare,
    /// Time at which the share changed last.
    pub since: u64,
    /// Replicas that all requests of the service needed when the share began to grow.
    pub needed_replicas: u32,
    /// Ready replicas that the share was given to. Observed by each controller, so not stored.
    pub ready_replicas: u32,
}

/// Observations that decide the share of a named canary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CanaryEvidence {
    /// Ability of the canary to answer requests.
    pub(crate) service: CanaryService,
    /// Replicas of the canary.
    pub(crate) own: Capacity,
    /// Replicas of the stable revision.
    pub(crate) stable: Capacity,
    /// Replicas that the requests which canaries do not get need.
    pub(crate) needed: u32,
    /// Most replicas that the canary may have; unset: as many as it needs.
    pub(crate) most: Option<u32>,
}

/// Ability of a canary to answer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanaryService {
    /// Has never had a ready replica.
    NotLoaded,
    /// The replicas fail, and none is ready.
    Failing,
    /// Has had a ready replica.
    Loaded,
}

impl CanaryShare {
    /// The share of a canary with a new revision, which gets requests as its replicas become ready.
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// The share that the canary's replicas have now, where the manifest asks for `target` percent.
    #[must_use]
    pub(crate) fn next(self, target: u8, evidence: &CanaryEvidence, now: u64) -> Self {
        let is_new_target = self.share.target != target;
        let percent = self.percent(target, evidence, now);
        let is_changed = is_new_target || percent != self.share.percent;
        let begins = is_new_target || (self.share.percent == 0 && percent > 0);
        Self {
            share: CandidateShare { percent, target },
            since: if is_changed { now } else { self.since },
            needed_replicas: if begins { self.measured(evidence) } else { self.needed_replicas },
            ready_replicas: evidence.own.ready,
        }
    }

    /// Replicas that all requests need, by what both revisions have now.
    fn measured(self, evidence: &CanaryEvidence) -> u32 {
        whole(evidence.needed, evidence.own.desired, self.share.percent)
    }

    fn percent(self, target: u8, evidence: &CanaryEvidence, now: u64) -> u8 {
        let own = evidence.own;
        let before = self.share.percent.min(target);
        match evidence.service {
            CanaryService::NotLoaded | CanaryService::Failing => 0,
            // The next request wakes it.
            CanaryService::Loaded if own.desired == 0 && own.ready == 0 => target,
            // Another revision answers at once; without one, requests wait for either.
            CanaryService::Loaded if own.ready == 0 && evidence.stable.ready > 0 => 0,
            CanaryService::Loaded if own.ready == 0 => before,
            CanaryService::Loaded => {
                let is_new_target = self.share.target != target;
                let waited = if is_new_target { 0 } else { now.saturating_sub(self.since) };
                self.of_ready(before, target, evidence, Duration::from_secs(waited))
            }
        }
    }

    /// The share of a canary with ready replicas. It grows as they become ready, and falls as they are lost.
    fn of_ready(self, before: u8, target: u8, evidence: &CanaryEvidence, waited: Duration) -> u8 {
        let own = evidence.own;
        let has_all = own.ready >= own.desired;
        // No replica comes for which the rest of the share could wait.
        if waited >= LONGEST_WAIT && has_all {
            return target;
        }
        let begins = before == 0 || self.share.target != target;
        let needed = if begins { self.measured(evidence) } else { self.needed_replicas };
        let fair = fair_percent(Replicas {
            candidate: own.ready,
            stable: evidence.stable.ready,
            needed: needed.min(evidence.most.unwrap_or(u32::MAX)),
        });
        let kept = if has_all { before } else { self.of_those_left(before, own.ready) };
        kept.max(fair.min(target))
    }

    /// The share of the replicas that are left after a loss: each keeps as many requests as it had.
    fn of_those_left(self, percent: u8, ready: u32) -> u8 {
        if ready >= self.ready_replicas {
            return percent;
        }
        let left = u64::from(percent) * u64::from(ready) / u64::from(self.ready_replicas);
        u8::try_from(left).unwrap_or(percent)
    }

    /// Fewest replicas of the canary for its whole share: while it grows, and then until the autoscaler has seen the requests.
    pub(crate) fn hold(self, now: u64) -> Option<u32> {
        let length = if self.share.is_reached() { SETTLED } else { LONGEST_WAIT };
        let replicas = part(self.needed_replicas, self.share.target);
        // Until it loads, one replica shows whether it does.
        let has_loaded = self.ready_replicas > 0;
        let lasts = now < self.since.saturating_add(length.as_secs());
        (has_loaded && lasts && replicas > 0).then_some(replicas)
    }
}

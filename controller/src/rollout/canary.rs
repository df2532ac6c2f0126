//! Share of a named canary (an entry of `spec.canary`). The share grows with the ready replicas, by the rule that also
//! applies to a candidate.

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
    /// Ready replicas when the share was computed last. Each controller observes them itself, so they are not stored.
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
    /// Replicas needed for the requests that do not go to canaries.
    pub(crate) needed: u32,
    /// Maximum replicas of the canary; `None` means no maximum.
    pub(crate) most: Option<u32>,
}

/// Ability of a canary to answer requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CanaryService {
    /// No replica of the canary has ever been ready.
    NotLoaded,
    /// The replicas fail, and none of them is ready.
    Failing,
    /// A replica of the canary has been ready at least once.
    Loaded,
}

impl CanaryShare {
    /// Creates the share of a canary with a new revision. It starts at 0 % and grows as replicas become ready.
    #[must_use]
    pub fn new(now: u64) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// Returns the share for the canary's current replicas, at most `target` percent as in the manifest.
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

    /// Returns the replicas that all requests need, estimated from the current replicas of both revisions.
    fn measured(self, evidence: &CanaryEvidence) -> u32 {
        whole(evidence.needed, evidence.own.desired, self.share.percent)
    }

    fn percent(self, target: u8, evidence: &CanaryEvidence, now: u64) -> u8 {
        let own = evidence.own;
        let before = self.share.percent.min(target);
        match evidence.service {
            CanaryService::NotLoaded | CanaryService::Failing => 0,
            // The canary is scaled to zero; the next request starts a replica.
            CanaryService::Loaded if own.desired == 0 && own.ready == 0 => target,
            // The stable revision can answer at once. If it has no ready replica either, the share stays.
            CanaryService::Loaded if own.ready == 0 && evidence.stable.ready > 0 => 0,
            CanaryService::Loaded if own.ready == 0 => before,
            CanaryService::Loaded => {
                let is_new_target = self.share.target != target;
                let waited = if is_new_target { 0 } else { now.saturating_sub(self.since) };
                self.of_ready(before, target, evidence, Duration::from_secs(waited))
            }
        }
    }

    /// Returns the share of a canary with ready replicas. The share grows as replicas become ready and shrinks when
    /// replicas are lost.
    fn of_ready(self, before: u8, target: u8, evidence: &CanaryEvidence, waited: Duration) -> u8 {
        let own = evidence.own;
        let has_all = own.ready >= own.desired;
        // All desired replicas are ready, so waiting longer brings no further replica.
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

    /// Returns the share after a loss of replicas: each remaining replica keeps as many requests as before.
    fn of_those_left(self, percent: u8, ready: u32) -> u8 {
        if ready >= self.ready_replicas {
            return percent;
        }
        let left = u64::from(percent) * u64::from(ready) / u64::from(self.ready_replicas);
        u8::try_from(left).unwrap_or(percent)
    }

    /// Returns the minimum of the canary's replicas, enough for its whole share; `None` if there is none. The minimum
    /// applies while the share grows, and then until the autoscaler has measured the additional requests.
    pub(crate) fn hold(self, now: u64) -> Option<u32> {
        let length = if self.share.is_reached() { SETTLED } else { LONGEST_WAIT };
        let replicas = part(self.needed_replicas, self.share.target);
        // Before a first replica has been ready, one replica is enough to find out if the model loads.
        let has_loaded = self.ready_replicas > 0;
        let lasts = now < self.since.saturating_add(length.as_secs());
        (has_loaded && lasts && replicas > 0).then_some(replicas)
    }
}

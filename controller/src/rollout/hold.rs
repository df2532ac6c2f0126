//! Replicas that a rollout demands beyond a revision's own bounds. The end of each hold is known when it begins.

use std::time::Duration;

use weir_cluster::{RevisionName, ScalingPolicy};

use super::share::{LONGEST_WAIT, part};
use super::{Candidate, Rollout, Stage, Surge};

/// Time after a change of the shares until the autoscaler has seen each revision's new traffic for a whole window.
pub(super) const SETTLED: Duration = ScalingPolicy::WINDOW;

/// Minimum of a revision's replicas that a rollout sets for some time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    /// Name of the revision.
    pub(crate) revision: RevisionName,
    /// Fewest replicas of the revision.
    pub(crate) replicas: u32,
    /// End of the hold, in seconds since 1970.
    pub(crate) until: u64,
    /// Purpose of the replicas.
    pub(crate) purpose: Purpose,
}

/// Purpose of the replicas that a rollout holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Replicas that can take the requests back at once.
    Rollback,
    /// Replicas that take the requests over.
    Takeover,
}

impl Rollout {
    /// Returns the holds that have not ended.
    pub(crate) fn holds(&self, now: u64) -> impl Iterator<Item = Hold> {
        let all = [self.previous_hold(), self.promoted_hold(), self.stable_hold(), self.candidate_hold()];
        let lasting = move |hold: &Hold| now < hold.until && hold.replicas > 0;
        all.into_iter().flatten().filter(lasting)
    }

    /// Returns the hold of the previous revision, which keeps its replicas for the rollback window.
    fn previous_hold(&self) -> Option<Hold> {
        let previous = self.previous.as_ref()?;
        Some(Hold {
            revision: previous.revision.clone(),
            replicas: previous.kept_replicas,
            until: self.kept_until()?,
            purpose: Purpose::Rollback,
        })
    }

    /// Returns the hold of a promoted revision, which keeps its replicas until the autoscaler has seen all its traffic.
    fn promoted_hold(&self) -> Option<Hold> {
        let promoted = self.previous.as_ref()?.since;
        let hold = |revision: &RevisionName| Hold {
            revision: revision.clone(),
            replicas: self.needed_replicas,
            until: promoted.saturating_add(SETTLED.as_secs()),
            purpose: Purpose::Takeover,
        };
        self.stable.as_ref().filter(|_| self.candidate.is_none()).map(hold)
    }

    /// Returns the hold of the stable revision, which keeps the replicas that all requests need: for the rollback
    /// window after a share of them moved to the candidate, and after they came back until the autoscaler has seen
    /// them.
    fn stable_hold(&self) -> Option<Hold> {
        let candidate = self.candidate.as_ref()?;
        let window = self.window();
        let length = match (&candidate.stage, candidate.share.percent) {
            (Stage::Waiting | Stage::RolledBack(_), _) | (Stage::Shifting(_), 0) => window.min(SETTLED),
            (Stage::Shifting(_), _) => window,
        };
        let hold = |revision: &RevisionName| Hold {
            revision: revision.clone(),
            replicas: self.needed_replicas,
            until: candidate.since.saturating_add(length.as_secs()),
            purpose: Purpose::Rollback,
        };
        match candidate.surge {
            Surge::Full => self.stable.as_ref().map(hold),
            Surge::None => None,
        }
    }

    /// Returns the hold of the candidate, which gets the replicas for its stage's share before it gets the requests.
    fn candidate_hold(&self) -> Option<Hold> {
        let candidate = self.candidate.as_ref()?;
        let length = match candidate.stage {
            Stage::Waiting | Stage::RolledBack(_) => return None,
            Stage::Shifting(_) if candidate.share.is_reached() => SETTLED,
            Stage::Shifting(_) => LONGEST_WAIT,
        };
        Some(Hold {
            revision: candidate.revision.clone(),
            replicas: part(self.needed_replicas, candidate.share.target),
            until: candidate.since.saturating_add(length.as_secs()),
            purpose: Purpose::Takeover,
        })
    }

    /// Returns the replicas of both revisions while the candidate's do not fit in addition to the stable revision's:
    /// each gets the replicas that its share of the requests needs.
    pub(crate) fn exchange(&self) -> Option<Exchange> {
        let candidate = self.candidate.as_ref()?;
        let Candidate { share, .. } = candidate;
        let stable = part(self.needed_replicas, 100_u8.saturating_sub(share.percent));
        match (candidate.surge, &candidate.stage) {
            (Surge::None, Stage::Shifting(_)) => Some(Exchange {
                stable,
                stable_most: (!share.is_reached()).then_some(stable.max(1)),
                candidate: part(self.needed_replicas, share.target),
            }),
            (Surge::None, Stage::Waiting | Stage::RolledBack(_)) | (Surge::Full, _) => None,
        }
    }
}

/// Replicas of both revisions if the cluster has no room for more than the service's whole traffic needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    /// Upper limit of the stable revision's minimum.
    pub(crate) stable: u32,
    /// Most replicas of the stable revision while the candidate waits for nodes that surplus replicas of the stable
    /// revision occupy; None for no limit.
    pub(crate) stable_most: Option<u32>,
    /// Upper limit of the candidate's minimum.
    pub(crate) candidate: u32,
}

//! Rollout of a new revision: traffic moves from the stable revision to the candidate.

mod hold;
mod judge;
mod share;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::RevisionName;

pub(crate) use hold::{Hold, Purpose};
pub(crate) use step::promote;
pub use step::step;

/// The state of a service's rollout. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// The revision rolled out last; it has all traffic that the candidate has not.
    pub stable: Option<RevisionName>,
    /// The stable revision before, to roll back to.
    pub previous: Option<PreviousRevision>,
    /// The revision that is being rolled out.
    pub candidate: Option<Candidate>,
    /// Replicas that all requests needed when a share of them moved last.
    pub needed_replicas: u32,
    /// How traffic moves to a candidate.
    pub strategy: Strategy,
    /// Time for which a replaced revision keeps its replicas; unset: [`Rollout::ROLLBACK_WINDOW`].
    pub rollback_window: Option<Duration>,
}

/// The stable revision before the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviousRevision {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Time at which it was replaced.
    pub since: u64,
    /// Replicas it had at that time.
    pub kept_replicas: u32,
}

/// A revision that is being rolled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Progress of the rollout.
    pub stage: Stage,
    /// Time at which this stage began, or at which its share of the requests changed last.
    pub since: u64,
    /// Share of the requests that the candidate gets.
    pub share: CandidateShare,
    /// Placement for its replicas beside those of the stable revision.
    pub surge: Surge,
}

/// A candidate's share of the requests, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CandidateShare {
    /// Share that its ready replicas have now.
    pub percent: u8,
    /// Share with which its stage ends.
    pub target: u8,
}

/// Placement for the replicas of a candidate beside those of the stable revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surge {
    /// The stable revision keeps all replicas while the candidate gets its own.
    #[default]
    Full,
    /// A replica of the candidate found no room: the stable revision ends replicas as the candidate takes its requests.
    None,
}

/// Progress of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Has not been ready yet; receives no traffic.
    Waiting,
    /// Receives the share of this step of the strategy, counted from 0; after the last step, all requests.
    Shifting(usize),
    /// Was worse than the stable revision, for this reason; receives no traffic.
    RolledBack(Arc<str>),
}

/// How traffic moves to a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// A fixed share in percent; `None` promotes the candidate as soon as it is ready.
    Manual(Option<u8>),
    /// Steps, each taken when the evidence is good.
    Automatic(Arc<Limits>),
}

/// Steps of an automatic rollout, and the limits that roll it back.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Steps in growing order; at least one.
    pub steps: Vec<Step>,
    /// Largest excess of the candidate's error rate over the stable revision's, 0..=1.
    pub max_error_rate: f64,
    /// Largest ratio of the candidate's p99 latency to the stable revision's.
    pub max_p99_ratio: f64,
}

/// A step of an automatic rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Share of the requests for the candidate, 1..=100 percent.
    pub percent: u8,
    /// Shortest duration of the step.
    pub min_duration: Duration,
}

/// Observations of a service's revisions that a rollout is decided on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Replicas of each revision of the rollout.
    pub capacities: BTreeMap<RevisionName, Capacity>,
    /// Most replicas that the candidate may have; unset: as many as it needs.
    pub most: Option<u32>,
    /// The candidate's requests since its stage began.
    pub candidate: Sample,
    /// The stable revision's requests in the same time.
    pub stable: Sample,
    /// Time for which the candidate's stage was watched without a gap, by a clock that nobody sets.
    pub watched: Duration,
}

/// Replicas of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Number of ready replicas.
    pub ready: u32,
    /// Number of replicas that were asked for.
    pub desired: u32,
    /// Placement for the replicas that were asked for.
    pub placement: Placement,
}

/// Placement for replicas that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Every replica has a node, or none is known to lack one.
    #[default]
    Complete,
    /// A replica has no node.
    Lacking,
}

/// Requests of a revision in some period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Number of successful requests.
    pub succeeded: u64,
    /// Number of requests that failed in the gateway or the replica.
    pub failed: u64,
    /// 99th percentile of the service time, without queueing; `None` without requests.
    pub p99: Option<Duration>,
}

/// A change that a step made.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// The candidate now receives this share, in percent.
    Shifted(RevisionName, u8),
    /// The candidate is now the stable revision, with all traffic.
    Promoted(RevisionName),
    /// The candidate receives no traffic any more, for this reason.
    RolledBack(RevisionName, Arc<str>),
}

impl Default for Strategy {
    fn default() -> Self {
        Self::Manual(None)
    }
}

impl Default for Limits {
    /// Three steps of a minute: gateways' reports are a second old at most, and a minute at a few requests a
    /// second suffices for a p99. One point of errors and half the p99 are within the usual noise.
    fn default() -> Self {
        let min_duration = Self::STEP;
        Self {
            steps: [5, 20, 50].map(|percent| Step { percent, min_duration }).into(),
            max_error_rate: 0.01,
            max_p99_ratio: 1.5,
        }
    }
}

impl Limits {
    /// Duration of a step that names none.
    pub const STEP: Duration = Duration::from_secs(60);
}

impl CandidateShare {
    /// Reports whether the candidate has the whole share of its stage.
    #[must_use]
    pub fn is_reached(self) -> bool {
        self.percent == self.target
    }
}

impl Evidence {
    /// The replicas of a revision; none of one that does not run.
    #[must_use]
    pub fn capacity(&self, revision: Option<&RevisionName>) -> Capacity {
        let found = revision.and_then(|name| self.capacities.get(name));
        found.copied().unwrap_or_default()
    }
}

impl Strategy {
    /// Share that a candidate has at the end of a step, in percent.
    fn target(&self, step: usize) -> u8 {
        match self {
            Self::Manual(percent) => percent.unwrap_or(100),
            Self::Automatic(limits) => limits.steps.get(step).map_or(100, |step| step.percent),
        }
    }

    /// Reports whether a candidate that has all requests replaces the stable revision.
    fn promotes(&self, step: usize) -> bool {
        match self {
            Self::Manual(percent) => percent.is_none(),
            Self::Automatic(limits) => step >= limits.steps.len(),
        }
    }
}

impl Rollout {
    /// Default of [`Self::rollback_window`]: most errors of a new revision show within ten minutes.
    pub const ROLLBACK_WINDOW: Duration = Duration::from_secs(600);

    /// The end of the time for which the previous revision keeps its replicas, in seconds since 1970.
    #[must_use]
    pub fn kept_until(&self) -> Option<u64> {
        let previous = self.previous.as_ref()?;
        Some(previous.since.saturating_add(self.window().as_secs()))
    }

    fn window(&self) -> Duration {
        self.rollback_window.unwrap_or(Self::ROLLBACK_WINDOW)
    }

    /// Reports whether the previous revision still keeps its replicas.
    #[must_use]
    pub fn keeps_previous(&self, now: u64) -> bool {
        self.kept_until().is_some_and(|until| now < until)
    }

    /// The candidate's share of the requests now, in percent.
    #[must_use]
    pub fn percent(&self) -> u8 {
        self.candidate.as_ref().map_or(0, |one| one.share.percent)
    }

    /// The time at which the candidate gets the whole share of its stage, whatever its replicas, in seconds since 1970; none
    /// once it has it.
    pub(crate) fn share_deadline(&self) -> Option<u64> {
        let moving = self.candidate.as_ref().filter(|one| !one.share.is_reached())?;
        Some(moving.since.saturating_add(share::LONGEST_WAIT.as_secs()))
    }

    /// Replicas that all requests need now, by what both revisions have. While the stable revision is held, that says nothing
    /// of its own traffic, and the number from before stands.
    pub(crate) fn measured(&self, stable: u32, candidate: u32, now: u64) -> u32 {
        let is_held = self.holds(now).any(|hold| Some(&hold.revision) == self.stable.as_ref());
        if is_held { self.needed_replicas.max(stable) } else { share::whole(stable, candidate, self.percent()) }
    }

    /// The revision of the current manifest.
    #[must_use]
    pub fn newest(&self) -> Option<&RevisionName> {
        let candidate = self.candidate.as_ref().map(|c| &c.revision);
        candidate.or(self.stable.as_ref())
    }

    /// All revisions of the rollout: stable, candidate and previous.
    pub fn revisions(&self) -> impl Iterator<Item = &RevisionName> {
        let candidate = self.candidate.iter().map(|c| &c.revision);
        let previous = self.previous.iter().map(|previous| &previous.revision);
        self.stable.iter().chain(candidate).chain(previous)
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shifted(revision, percent) => {
                write!(f, "{} receives {percent} % of the requests", revision.as_str())
            }
            Self::Promoted(revision) => write!(f, "{} receives all requests", revision.as_str()),
            Self::RolledBack(revision, reason) => {
                write!(f, "{} was rolled back: {reason}", revision.as_str())
            }
        }
    }
}

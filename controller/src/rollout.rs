//! Rollout of a new revision: traffic moves from the stable revision to the candidate.

mod canary;
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

pub use canary::CanaryShare;
pub(crate) use canary::{CanaryEvidence, CanaryService};
pub(crate) use hold::{Hold, Purpose};
pub(crate) use step::promote;
pub use step::step;

/// State of a service's rollout. Times are in seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// Revision rolled out last, which receives all traffic that the candidate does not; None before the first
    /// revision.
    pub stable: Option<RevisionName>,
    /// Stable revision before the current one, to roll back to; None if there is none.
    pub previous: Option<PreviousRevision>,
    /// Revision that is being rolled out; None if no rollout is in progress.
    pub candidate: Option<Candidate>,
    /// Replicas that the service's whole traffic needed when a share of it last moved between revisions.
    pub needed_replicas: u32,
    /// Way in which traffic moves to a candidate.
    pub strategy: Strategy,
    /// Time for which a replaced revision keeps its replicas; None for [`Rollout::ROLLBACK_WINDOW`].
    pub rollback_window: Option<Duration>,
}

/// Stable revision before the current one.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviousRevision {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Time at which the revision was replaced.
    pub since: u64,
    /// Replicas that the revision had at that time.
    pub kept_replicas: u32,
}

/// Revision that is being rolled out.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Name of the revision.
    pub revision: RevisionName,
    /// Progress of the rollout.
    pub stage: Stage,
    /// Time at which this stage began, or at which the candidate's share last changed.
    pub since: u64,
    /// Share of the requests that the candidate gets.
    pub share: CandidateShare,
    /// Room for the candidate's replicas in addition to those of the stable revision.
    pub surge: Surge,
}

impl Candidate {
    /// Creates a candidate without requests, which has room for all of its replicas.
    pub(crate) fn new(revision: RevisionName, stage: Stage, since: u64) -> Self {
        Self { revision, stage, since, share: CandidateShare::default(), surge: Surge::Full }
    }
}

/// Share of the requests that a candidate gets, in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CandidateShare {
    /// Share that the candidate's ready replicas get now.
    pub percent: u8,
    /// Share at the end of the stage.
    pub target: u8,
}

/// Room for a candidate's replicas in addition to those of the stable revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surge {
    /// The stable revision keeps all replicas while the candidate gets its own.
    #[default]
    Full,
    /// A replica of the candidate fits no node: the stable revision ends replicas as the candidate takes its requests.
    None,
}

/// Progress of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// The candidate has not been ready yet and receives no traffic.
    Waiting,
    /// The candidate receives the share of this step of the strategy, counted from 0; after the last step, all
    /// requests.
    Shifting(usize),
    /// The candidate was worse than the stable revision, for this reason, and receives no traffic.
    RolledBack(Arc<str>),
}

/// Way in which traffic moves to a candidate.
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

/// Observations of a service's revisions on which a rollout is decided.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Replicas of each revision of the rollout.
    pub capacities: BTreeMap<RevisionName, Capacity>,
    /// Most replicas that the candidate may have; None for as many as it needs.
    pub most: Option<u32>,
    /// Requests of the candidate since its stage began.
    pub candidate: Sample,
    /// Requests of the stable revision in the same time.
    pub stable: Sample,
    /// Time for which the candidate's stage was observed without a gap, by a clock that is never set.
    pub watched: Duration,
}

/// Numbers of replicas of a revision.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Number of ready replicas.
    pub ready: u32,
    /// Number of desired replicas.
    pub desired: u32,
    /// Placement of the desired replicas.
    pub placement: Placement,
}

/// Placement of desired replicas.
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

/// Change of a rollout in one step.
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
    /// Returns three steps of a minute. Gateways' reports are at most a second old, and a minute at a few requests per
    /// second suffices for a p99. One percentage point of errors and half of the p99 are within the usual noise.
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
    /// Duration of a step that sets none.
    pub const STEP: Duration = Duration::from_secs(60);
}

impl CandidateShare {
    /// Returns true if the candidate has the whole share of its stage.
    #[must_use]
    pub fn is_reached(self) -> bool {
        self.percent == self.target
    }
}

impl Evidence {
    /// Returns the replicas of a revision; zero for a revision that does not run.
    #[must_use]
    pub fn capacity(&self, revision: Option<&RevisionName>) -> Capacity {
        let found = revision.and_then(|name| self.capacities.get(name));
        found.copied().unwrap_or_default()
    }
}

impl Strategy {
    /// Returns the share that a candidate has at the end of a step, in percent.
    fn target(&self, step: usize) -> u8 {
        match self {
            Self::Manual(percent) => percent.unwrap_or(100),
            Self::Automatic(limits) => limits.steps.get(step).map_or(100, |step| step.percent),
        }
    }

    /// Returns true if a candidate that has all requests replaces the stable revision.
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

    /// Returns the time until which the previous revision keeps its replicas, in seconds since 1970; None without a
    /// previous revision.
    #[must_use]
    pub fn kept_until(&self) -> Option<u64> {
        let previous = self.previous.as_ref()?;
        Some(previous.since.saturating_add(self.window().as_secs()))
    }

    fn window(&self) -> Duration {
        self.rollback_window.unwrap_or(Self::ROLLBACK_WINDOW)
    }

    /// Returns true if the previous revision still keeps its replicas.
    #[must_use]
    pub fn keeps_previous(&self, now: u64) -> bool {
        self.kept_until().is_some_and(|until| now < until)
    }

    /// Returns the candidate's present share of the requests, in percent.
    #[must_use]
    pub fn percent(&self) -> u8 {
        self.candidate.as_ref().map_or(0, |one| one.share.percent)
    }

    /// Returns the time at which the candidate gets the whole share of its stage, however many replicas are ready, in
    /// seconds since 1970; None once it has the share.
    pub(crate) fn share_deadline(&self) -> Option<u64> {
        let moving = self.candidate.as_ref().filter(|one| !one.share.is_reached())?;
        Some(moving.since.saturating_add(share::LONGEST_WAIT.as_secs()))
    }

    /// Returns the replicas that the service's whole traffic needs, derived from both revisions. While the stable
    /// revision is held, its replicas say nothing about its traffic, so the earlier number stands.
    pub(crate) fn measured(&self, stable: u32, candidate: u32, now: u64) -> u32 {
        let is_held = self.holds(now).any(|hold| Some(&hold.revision) == self.stable.as_ref());
        if is_held { self.needed_replicas.max(stable) } else { share::whole(stable, candidate, self.percent()) }
    }

    /// Returns the revision of the current manifest: the candidate, or else the stable revision; None before the first.
    #[must_use]
    pub fn newest(&self) -> Option<&RevisionName> {
        let candidate = self.candidate.as_ref().map(|c| &c.revision);
        candidate.or(self.stable.as_ref())
    }

    /// Returns all revisions of the rollout: stable, candidate and previous.
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

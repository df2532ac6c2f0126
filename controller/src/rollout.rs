//! Rollout of a new revision: traffic moves from the stable revision to the candidate.

mod judge;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::RevisionName;

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
    /// Replicas of the stable revision when the rollout began, kept until it ends.
    pub kept_replicas: u32,
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
    /// Time at which this stage began.
    pub since: u64,
}

/// Progress of a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// Has not been ready yet; receives no traffic.
    Waiting,
    /// Receives the share of this step of the strategy, counted from 0.
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
    /// Revisions with a ready replica.
    pub ready: BTreeSet<RevisionName>,
    /// The candidate's requests since its stage began.
    pub candidate: Sample,
    /// The stable revision's requests in the same time.
    pub stable: Sample,
    /// Time for which the candidate's stage was watched without a gap, by a clock that nobody sets.
    pub watched: Duration,
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
            steps: [5, 20, 50]
                .map(|percent| Step {
                    percent,
                    min_duration,
                })
                .into(),
            max_error_rate: 0.01,
            max_p99_ratio: 1.5,
        }
    }
}

impl Limits {
    /// Duration of a step that names none.
    pub const STEP: Duration = Duration::from_secs(60);
}

impl Rollout {
    /// Default of [`Self::rollback_window`]: most errors of a new revision show within ten minutes.
    pub const ROLLBACK_WINDOW: Duration = Duration::from_secs(600);

    /// The end of the time for which the previous revision keeps its replicas, in seconds since 1970.
    #[must_use]
    pub fn kept_until(&self) -> Option<u64> {
        let window = self.rollback_window.unwrap_or(Self::ROLLBACK_WINDOW);
        let previous = self.previous.as_ref()?;
        Some(previous.since.saturating_add(window.as_secs()))
    }

    /// Reports whether the previous revision still keeps its replicas.
    #[must_use]
    pub fn keeps_previous(&self, now: u64) -> bool {
        self.kept_until().is_some_and(|until| now < until)
    }

    /// The candidate's share of the requests now, in percent.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let Some(candidate) = &self.candidate else {
            return 0;
        };
        match (&candidate.stage, &self.strategy) {
            (Stage::Waiting | Stage::RolledBack(_), _) => 0,
            // Without a percentage the next step promotes it; until then nothing moves.
            (Stage::Shifting(_), Strategy::Manual(percent)) => percent.unwrap_or(0),
            (Stage::Shifting(step), Strategy::Automatic(limits)) => {
                let step = limits.steps.get(*step).or(limits.steps.last());
                step.map_or(0, |step| step.percent)
            }
        }
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
                write!(
                    f,
                    "{} receives {percent} % of the requests",
                    revision.as_str()
                )
            }
            Self::Promoted(revision) => write!(f, "{} receives all requests", revision.as_str()),
            Self::RolledBack(revision, reason) => {
                write!(f, "{} was rolled back: {reason}", revision.as_str())
            }
        }
    }
}

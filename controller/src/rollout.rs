//! How a new revision takes over from the one that serves.

mod judge;
mod step;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use weir_cluster::RevisionName;

pub use step::step;

/// Who serves, who did, and who is about to. Times are seconds since 1970.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rollout {
    /// The revision that was last rolled out: it has all traffic that no rollout takes from it.
    pub stable: Option<RevisionName>,
    /// The one before, to roll back to.
    pub previous: Option<PreviousRevision>,
    /// The one that is to take over.
    pub candidate: Option<Candidate>,
    /// Replicas of the stable revision when the rollout began: it keeps them until it is over.
    pub kept: u32,
    /// How it goes.
    pub strategy: Strategy,
}

/// A revision that was rolled out once.
#[derive(Clone, Debug, PartialEq)]
pub struct PreviousRevision {
    /// Which.
    pub revision: RevisionName,
    /// When another took over.
    pub since: u64,
    /// Replicas it had then.
    pub kept: u32,
}

/// A revision that is to take over.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Which.
    pub revision: RevisionName,
    /// How far it is.
    pub stage: Stage,
    /// Since when it is in this stage.
    pub since: u64,
}

/// How far a candidate is.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    /// It was not ready yet.
    Waiting,
    /// It was ready, and has the share that the strategy gives it at this step, counted from 0.
    Shifting(usize),
    /// It was worse than the stable revision, for this reason, and gets nothing any more.
    RolledBack(Arc<str>),
}

/// How a candidate takes over.
#[derive(Clone, Debug, PartialEq)]
pub enum Strategy {
    /// With this share, in percent; or at once and for good, as soon as it is ready.
    Manual(Option<u8>),
    /// By steps, each one if the evidence allows it.
    Automatic(Arc<Limits>),
}

/// Steps of an automatic rollout, and what ends it.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The steps; at least one.
    pub steps: Vec<Step>,
    /// By how much the candidate's share of errors may exceed the stable revision's, 0..=1.
    pub max_error_rate: f64,
    /// How many times the stable revision's p99 the candidate's may be.
    pub max_p99_ratio: f64,
}

/// A step of an automatic rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Share of the candidate, 1..=100 percent.
    pub percent: u8,
    /// How long it is watched at least.
    pub lasts: Duration,
}

/// What is known of a service's revisions at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Those with a replica that takes requests.
    pub ready: BTreeSet<RevisionName>,
    /// What the candidate did since it is in its stage.
    pub candidate: Sample,
    /// What the stable revision did in the same time.
    pub stable: Sample,
}

/// What a revision did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Requests that ended well.
    pub succeeded: u64,
    /// Requests that ended with an error of ours or the replica's.
    pub failed: u64,
    /// The time that 99 of 100 took at most, queue not counted.
    pub p99: Option<Duration>,
}

/// What a step did.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// The candidate gets this share from now on, in percent.
    Shifted(RevisionName, u8),
    /// It has all traffic and is the stable revision now.
    Promoted(RevisionName),
    /// It gets nothing any more, for this reason.
    RolledBack(RevisionName, Arc<str>),
}

impl Default for Strategy {
    fn default() -> Self {
        Self::Manual(None)
    }
}

impl Default for Limits {
    /// Three steps of a minute: two gateways' reports are a second old at most, and a minute at some
    /// requests a second is evidence enough for a p99. The other two are what people call no change.
    fn default() -> Self {
        let lasts = Self::STEP;
        Self {
            steps: [5, 20, 50].map(|percent| Step { percent, lasts }).into(),
            max_error_rate: 0.01,
            max_p99_ratio: 1.5,
        }
    }
}

impl Limits {
    /// How long a step lasts that does not say.
    pub const STEP: Duration = Duration::from_secs(60);
}

impl Rollout {
    /// The candidate's share now, in percent.
    #[must_use]
    pub fn percent(&self) -> u8 {
        let Some(candidate) = &self.candidate else {
            return 0;
        };
        match (&candidate.stage, &self.strategy) {
            (Stage::Waiting | Stage::RolledBack(_), _) => 0,
            // The next step makes it the stable one; until then nothing moves.
            (Stage::Shifting(_), Strategy::Manual(percent)) => percent.unwrap_or(0),
            (Stage::Shifting(step), Strategy::Automatic(limits)) => {
                let step = limits.steps.get(*step).or(limits.steps.last());
                step.map_or(0, |step| step.percent)
            }
        }
    }

    /// The revision that the manifest asks for.
    #[must_use]
    pub fn newest(&self) -> Option<&RevisionName> {
        let candidate = self.candidate.as_ref().map(|c| &c.revision);
        candidate.or(self.stable.as_ref())
    }

    /// Every revision that has a part in it.
    pub fn revisions(&self) -> impl Iterator<Item = &RevisionName> {
        let candidate = self.candidate.iter().map(|c| &c.revision);
        let previous = self.previous.iter().map(|former| &former.revision);
        self.stable.iter().chain(candidate).chain(previous)
    }
}

impl fmt::Display for Transition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shifted(revision, percent) => {
                write!(f, "{} gets {percent} % of the requests", revision.as_str())
            }
            Self::Promoted(revision) => write!(f, "{} gets all requests", revision.as_str()),
            Self::RolledBack(revision, because) => {
                write!(
                    f,
                    "{} gets no requests any more: {because}",
                    revision.as_str()
                )
            }
        }
    }
}

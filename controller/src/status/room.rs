//! A candidate that waits for resources on a node.

use super::{StatusInputs, time};
use crate::rollout::Candidate;

/// Time in seconds after which a wait for resources counts as a failure: Kubernetes' default of
/// `progressDeadlineSeconds`.
const LONGEST: u64 = 600;

/// Wait of a candidate for resources on a node.
pub(super) struct Wait<'a> {
    revision: &'a str,
    /// Resources of which no node has enough left, or whose quota is exhausted.
    resources: &'a str,
    /// The platform's message, including what to do.
    message: &'a str,
    since: u64,
    /// Time from which the wait counts as a failure, in seconds since 1970.
    pub(super) deadline: u64,
}

/// Returns the wait of a candidate whose replicas all lack resources; `None` if something else keeps the candidate from
/// serving.
pub(super) fn wait<'a>(inputs: &'a StatusInputs<'_>, candidate: &'a Candidate) -> Option<Wait<'a>> {
    let revision = inputs.revision(&candidate.revision)?;
    let failure = revision.failure.as_ref()?;
    let resources = failure.lacks.as_deref()?;
    let since = failure.at.unwrap_or_default().max(candidate.since);
    Some(Wait {
        revision: candidate.revision.as_str(),
        resources,
        message: &failure.message,
        since,
        deadline: since.saturating_add(LONGEST),
    })
}

impl Wait<'_> {
    /// Returns the message for conditions; `now` is in seconds since 1970.
    pub(super) fn at(&self, now: u64) -> String {
        if now < self.deadline { self.in_time() } else { self.overdue() }
    }

    /// Returns the message for the time before the deadline.
    pub(super) fn in_time(&self) -> String {
        let Self { revision, resources, message, .. } = self;
        format!(
            "{revision} has waited for room ({resources}) since {}, and counts as failed at {}: {message}",
            written(self.since),
            written(self.deadline)
        )
    }

    /// Returns the message for the time after the deadline.
    pub(super) fn overdue(&self) -> String {
        let Self { revision, resources, message, .. } = self;
        format!("{revision} failed to start: no room ({resources}) since {}: {message}", written(self.since))
    }
}

fn written(seconds: u64) -> String {
    time(seconds).map_or_else(|| seconds.to_string(), |time| time.0.to_string())
}

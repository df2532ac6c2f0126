//! The next state of a rollout.

use std::time::Duration;

use super::judge::{Verdict, judge};
use super::{Candidate, Evidence, Limits, PreviousRevision, Rollout, Stage, Strategy, Transition};

/// Takes the next step of a rollout if the evidence allows it. Without a candidate nothing changes. `now` is in
/// seconds since 1970.
#[must_use]
pub fn step(rollout: &Rollout, evidence: &Evidence, now: u64) -> (Rollout, Option<Transition>) {
    let Some(candidate) = &rollout.candidate else {
        return (rollout.clone(), None);
    };
    let is_ready = evidence.ready.contains(&candidate.revision);
    match (&candidate.stage, &rollout.strategy) {
        (Stage::Waiting, Strategy::Manual(_) | Strategy::Automatic(_)) if !is_ready => {
            (rollout.clone(), None)
        }
        // It is scaled to zero: requests must not wait for it while another revision is up.
        (Stage::Shifting(_) | Stage::RolledBack(_), Strategy::Manual(None)) if !is_ready => {
            (at_stage(rollout, candidate, Stage::Waiting, now), None)
        }
        (Stage::Waiting | Stage::Shifting(_) | Stage::RolledBack(_), Strategy::Manual(None)) => {
            promote(rollout, candidate, now)
        }
        // A percentage set by a person overrides an automatic roll-back.
        (Stage::Waiting | Stage::RolledBack(_), Strategy::Manual(Some(_)))
        | (Stage::Waiting, Strategy::Automatic(_)) => shift(rollout, candidate, 0, now),
        (Stage::Shifting(_), Strategy::Manual(Some(_)))
        | (Stage::RolledBack(_), Strategy::Automatic(_)) => (rollout.clone(), None),
        (Stage::Shifting(at), Strategy::Automatic(limits)) => {
            advance(rollout, candidate, (*at, limits), evidence, now)
        }
    }
}

/// Takes one step of an automatic rollout.
fn advance(
    rollout: &Rollout,
    candidate: &Candidate,
    (at, limits): (usize, &Limits),
    evidence: &Evidence,
    now: u64,
) -> (Rollout, Option<Transition>) {
    let step = limits.steps.get(at);
    let min_duration = step.map_or(Duration::ZERO, |step| step.min_duration);
    // Another controller's clock may have begun the step, and nobody may have watched since. After a restart the usual time
    // is enough, as a step may last for days.
    let is_watched = evidence.watched >= min_duration.min(Limits::STEP);
    let is_over = now.saturating_sub(candidate.since) >= min_duration.as_secs()
        && is_watched
        && evidence.ready.contains(&candidate.revision);
    match judge(limits, evidence) {
        Verdict::Bad(reason) => {
            let revision = candidate.revision.clone();
            let moved = Transition::RolledBack(revision, reason.clone());
            (
                at_stage(rollout, candidate, Stage::RolledBack(reason), now),
                Some(moved),
            )
        }
        Verdict::Good if is_over && at + 1 < limits.steps.len() => {
            shift(rollout, candidate, at + 1, now)
        }
        Verdict::Good if is_over => promote(rollout, candidate, now),
        Verdict::Good | Verdict::Wait => (rollout.clone(), None),
    }
}

fn shift(
    rollout: &Rollout,
    candidate: &Candidate,
    to: usize,
    now: u64,
) -> (Rollout, Option<Transition>) {
    let next = at_stage(rollout, candidate, Stage::Shifting(to), now);
    let moved = Transition::Shifted(candidate.revision.clone(), next.percent());
    (next, Some(moved))
}

/// Makes the candidate the stable revision.
pub(crate) fn promote(
    rollout: &Rollout,
    candidate: &Candidate,
    now: u64,
) -> (Rollout, Option<Transition>) {
    let previous = rollout.stable.clone().map(|revision| PreviousRevision {
        revision,
        since: now,
        kept_replicas: rollout.kept_replicas,
    });
    let next = Rollout {
        stable: Some(candidate.revision.clone()),
        previous,
        candidate: None,
        kept_replicas: 0,
        strategy: rollout.strategy.clone(),
        rollback_window: rollout.rollback_window,
    };
    (next, Some(Transition::Promoted(candidate.revision.clone())))
}

fn at_stage(rollout: &Rollout, candidate: &Candidate, stage: Stage, now: u64) -> Rollout {
    let candidate = Candidate {
        revision: candidate.revision.clone(),
        stage,
        since: now,
    };
    Rollout {
        candidate: Some(candidate),
        ..rollout.clone()
    }
}

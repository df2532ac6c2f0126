//! Computation of the next state of a rollout.

use std::time::Duration;

use super::judge::{Verdict, judge};
use super::share::next_percent;
use super::{
    Candidate, CandidateShare, Evidence, Limits, Placement, PreviousRevision, Rollout, Stage, Strategy, Surge,
    Transition,
};

/// Time without a further ready replica after which replicas without a node count as lacking room. A scheduler, or a
/// queue such as Kueue's, places those that fit within seconds.
const PLACEMENT_WAIT: Duration = Duration::from_secs(60);

/// Takes the next step of a rollout if the evidence allows it. Without a candidate nothing changes. `now` is in seconds
/// since 1970.
#[must_use]
pub fn step(rollout: &Rollout, evidence: &Evidence, now: u64) -> (Rollout, Option<Transition>) {
    let Some(candidate) = &rollout.candidate else {
        return (rollout.clone(), None);
    };
    let is_ready = evidence.capacity(Some(&candidate.revision)).ready > 0;
    match (&candidate.stage, &rollout.strategy) {
        (Stage::Waiting, Strategy::Manual(_) | Strategy::Automatic(_)) if !is_ready => (rollout.clone(), None),
        // The candidate is scaled to zero: requests must not wait for it while another revision is ready.
        (Stage::Shifting(_) | Stage::RolledBack(_), Strategy::Manual(None)) if !is_ready => {
            (without_share(rollout, candidate, Stage::Waiting, evidence, now), None)
        }
        // A percentage that the user sets overrides an automatic rollback.
        (Stage::Waiting | Stage::RolledBack(_), Strategy::Manual(_)) | (Stage::Waiting, Strategy::Automatic(_)) => {
            shift(rollout, candidate, 0, evidence, now)
        }
        (Stage::Shifting(_), Strategy::Manual(_)) => follow(rollout, candidate, evidence, now),
        (Stage::RolledBack(_), Strategy::Automatic(_)) => (rollout.clone(), None),
        (Stage::Shifting(at), Strategy::Automatic(limits)) => advance(rollout, candidate, (*at, limits), evidence, now),
    }
}

/// Moves the candidate to the share in the manifest.
fn follow(rollout: &Rollout, candidate: &Candidate, evidence: &Evidence, now: u64) -> (Rollout, Option<Transition>) {
    let target = rollout.strategy.target(0);
    let is_ready = evidence.capacity(Some(&candidate.revision)).ready > 0;
    if is_down(rollout, candidate, evidence) {
        give_back(rollout, candidate, evidence, now)
    } else if candidate.share.target == target {
        grow(rollout, candidate, 0, evidence, now)
    } else if candidate.share.percent == 0 && !is_ready {
        (without_share(rollout, candidate, Stage::Waiting, evidence, now), None)
    } else {
        shift(rollout, candidate, 0, evidence, now)
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
    if candidate.share.target != rollout.strategy.target(at) {
        return shift(rollout, candidate, at, evidence, now);
    }
    let step = limits.steps.get(at);
    let min_duration = step.map_or(Duration::ZERO, |step| step.min_duration);
    // The step may have begun by the clock of another controller, and may not have been observed since. After a restart
    // the default duration is enough, because a step may last for days.
    let is_watched = evidence.watched >= min_duration.min(Limits::STEP);
    let is_over = now.saturating_sub(candidate.since) >= min_duration.as_secs()
        && is_watched
        && evidence.capacity(Some(&candidate.revision)).ready > 0;
    match judge(limits, evidence) {
        Verdict::Bad(reason) => {
            let revision = candidate.revision.clone();
            let moved = Transition::RolledBack(revision, reason.clone());
            let stage = Stage::RolledBack(reason);
            (without_share(rollout, candidate, stage, evidence, now), Some(moved))
        }
        Verdict::Good | Verdict::Wait if is_down(rollout, candidate, evidence) => {
            give_back(rollout, candidate, evidence, now)
        }
        Verdict::Good | Verdict::Wait if !candidate.share.is_reached() => grow(rollout, candidate, at, evidence, now),
        Verdict::Good if is_over => shift(rollout, candidate, at + 1, evidence, now),
        Verdict::Good | Verdict::Wait => (rollout.clone(), None),
    }
}

/// Returns true if the candidate cannot answer its share: it should have replicas and none is ready, while the stable
/// revision has a ready replica.
fn is_down(rollout: &Rollout, candidate: &Candidate, evidence: &Evidence) -> bool {
    let own = evidence.capacity(Some(&candidate.revision));
    let stable = evidence.capacity(rollout.stable.as_ref());
    candidate.share.percent > 0 && own.desired > 0 && own.ready == 0 && stable.ready > 0
}

/// Returns the candidate's share to the stable revision until one of the candidate's replicas is ready.
fn give_back(rollout: &Rollout, candidate: &Candidate, evidence: &Evidence, now: u64) -> (Rollout, Option<Transition>) {
    let moved = Transition::Shifted(candidate.revision.clone(), 0);
    (without_share(rollout, candidate, Stage::Waiting, evidence, now), Some(moved))
}

/// Begins a step. The step's percentage is the target; the candidate receives as much of it as its ready replicas can
/// take.
fn shift(
    rollout: &Rollout,
    candidate: &Candidate,
    to: usize,
    evidence: &Evidence,
    now: u64,
) -> (Rollout, Option<Transition>) {
    let candidate = Candidate {
        stage: Stage::Shifting(to),
        since: now,
        share: CandidateShare { target: rollout.strategy.target(to), ..candidate.share },
        ..candidate.clone()
    };
    let rollout = Rollout {
        needed_replicas: measured(rollout, evidence, now),
        candidate: Some(candidate.clone()),
        ..rollout.clone()
    };
    grow(&rollout, &candidate, to, evidence, now)
}

/// Raises the candidate's share as far as its ready replicas allow, and promotes it if that is everything.
fn grow(
    rollout: &Rollout,
    candidate: &Candidate,
    at: usize,
    evidence: &Evidence,
    now: u64,
) -> (Rollout, Option<Transition>) {
    let waited = Duration::from_secs(now.saturating_sub(candidate.since));
    let candidate = &with_room(candidate, evidence, waited);
    let percent = next_percent(rollout, candidate, evidence, waited);
    if percent == 100 && rollout.strategy.promotes(at) {
        return promote(rollout, candidate, now);
    }
    let is_moved = percent != candidate.share.percent;
    let moved = Transition::Shifted(candidate.revision.clone(), percent);
    let next = Candidate {
        since: if is_moved { now } else { candidate.since },
        share: CandidateShare { percent, ..candidate.share },
        ..candidate.clone()
    };
    (with(rollout, next), is_moved.then_some(moved))
}

/// Lets the candidate use the stable revision's room if its own replicas have lacked room for a while. The candidate
/// may use it for the rest of the rollout: otherwise the stable revision would take back the room that it frees.
fn with_room(candidate: &Candidate, evidence: &Evidence, waited: Duration) -> Candidate {
    let capacity = evidence.capacity(Some(&candidate.revision));
    let waits = waited >= PLACEMENT_WAIT && !candidate.share.is_reached();
    let surge = match (capacity.placement, candidate.surge) {
        (Placement::Lacking, _) if waits => Surge::None,
        (Placement::Lacking | Placement::Complete, surge) => surge,
    };
    Candidate { surge, ..candidate.clone() }
}

fn measured(rollout: &Rollout, evidence: &Evidence, now: u64) -> u32 {
    let candidate = rollout.candidate.as_ref().map(|one| &one.revision);
    let desired = |revision| evidence.capacity(revision).desired;
    rollout.measured(desired(rollout.stable.as_ref()), desired(candidate), now)
}

/// Makes the candidate the stable revision.
pub(crate) fn promote(rollout: &Rollout, candidate: &Candidate, now: u64) -> (Rollout, Option<Transition>) {
    let previous = rollout.stable.clone().map(|revision| PreviousRevision {
        revision,
        since: now,
        kept_replicas: match candidate.surge {
            Surge::Full => rollout.needed_replicas,
            Surge::None => 0,
        },
    });
    let next = Rollout {
        stable: Some(candidate.revision.clone()),
        previous,
        candidate: None,
        needed_replicas: rollout.needed_replicas,
        strategy: rollout.strategy.clone(),
        rollback_window: rollout.rollback_window,
    };
    (next, Some(Transition::Promoted(candidate.revision.clone())))
}

/// Gives all requests back to the stable revision.
fn without_share(rollout: &Rollout, candidate: &Candidate, stage: Stage, evidence: &Evidence, now: u64) -> Rollout {
    let rollout = Rollout { needed_replicas: measured(rollout, evidence, now), ..rollout.clone() };
    let candidate = Candidate::new(candidate.revision.clone(), stage, now);
    with(&rollout, candidate)
}

fn with(rollout: &Rollout, candidate: Candidate) -> Rollout {
    Rollout { candidate: Some(candidate), ..rollout.clone() }
}

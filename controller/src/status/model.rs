//! `modelStatus`: the state of the model and its last failure.

use std::cmp::Reverse;

use weir_cluster::{Failure, FailureReason as Failed, Replica, Revision, RevisionName};
use weir_crds::inference_service::{
    FailureInfo, FailureReason, ModelCopies, ModelState, ModelStates, ModelStatus, TransitionStatus,
};

use super::{Refusal, RevisionState, StatusInputs, time};
use crate::rollout::{Stage, Strategy};

pub(super) fn status(inputs: &StatusInputs<'_>) -> ModelStatus {
    let rollout = &inputs.history.rollout;
    let states = rollout.stable.as_ref().map(|stable| ModelStates {
        active_model_state: state(inputs, stable),
        target_model_state: rollout.newest().map(|newest| state(inputs, newest)),
    });
    ModelStatus {
        transition_status: transition(inputs),
        states,
        last_failure_info: failure(inputs),
        copies: Some(copies(inputs, rollout.revisions())),
    }
}

/// Returns the model status of one revision, for a canary.
pub(super) fn of_revision(inputs: &StatusInputs<'_>, revision: &RevisionName) -> ModelStatus {
    let active = state(inputs, revision);
    ModelStatus {
        transition_status: by_state(&inputs.state(revision)),
        states: Some(ModelStates { active_model_state: active, target_model_state: Some(active) }),
        last_failure_info: failure_of(inputs, revision),
        copies: Some(copies(inputs, [revision])),
    }
}

fn transition(inputs: &StatusInputs<'_>) -> TransitionStatus {
    match (inputs.validation, inputs.applied) {
        (Err(_), _) | (_, Err(Refusal::Never(_))) => return TransitionStatus::InvalidSpec,
        (_, Err(Refusal::Now(_))) => return TransitionStatus::InProgress,
        (Ok(_), Ok(_)) => {}
    }
    let rollout = &inputs.history.rollout;
    match (&rollout.candidate, &rollout.stable) {
        (Some(candidate), _) => match (&candidate.stage, inputs.state(&candidate.revision)) {
            (Stage::Waiting, RevisionState::Failed(_, _)) => TransitionStatus::BlockedByFailedLoad,
            // A rollout that has reached the manifest's share has no further goal, as in KServe.
            (Stage::Shifting(_), state)
                if matches!(rollout.strategy, Strategy::Manual(Some(_))) && candidate.share.is_reached() =>
            {
                by_state(&state)
            }
            (Stage::Waiting | Stage::Shifting(_) | Stage::RolledBack(_), _) => TransitionStatus::InProgress,
        },
        (None, Some(stable)) => by_state(&inputs.state(stable)),
        (None, None) => TransitionStatus::InProgress,
    }
}

fn by_state(state: &RevisionState) -> TransitionStatus {
    match state {
        RevisionState::Ready | RevisionState::Standby | RevisionState::Restarting => TransitionStatus::UpToDate,
        RevisionState::Loading => TransitionStatus::InProgress,
        RevisionState::Failed(_, _) => TransitionStatus::BlockedByFailedLoad,
    }
}

fn state(inputs: &StatusInputs<'_>, revision: &RevisionName) -> ModelState {
    match inputs.state(revision) {
        RevisionState::Ready => ModelState::Loaded,
        RevisionState::Standby => ModelState::Standby,
        RevisionState::Failed(_, _) => ModelState::FailedToLoad,
        RevisionState::Loading | RevisionState::Restarting => match inputs.revision(revision) {
            Some(revision) if !revision.replicas.is_empty() => ModelState::Loading,
            Some(_) | None => ModelState::Pending,
        },
    }
}

fn failure(inputs: &StatusInputs<'_>) -> Option<FailureInfo> {
    if let Err(errors) = inputs.validation {
        return Some(FailureInfo {
            reason: Some(errors.reason),
            message: Some(errors.to_string()),
            ..FailureInfo::default()
        });
    }
    if let Err(refusal) = inputs.applied {
        return Some(FailureInfo {
            reason: Some(match refusal {
                Refusal::Never(_) => FailureReason::InvalidPredictorSpec,
                Refusal::Now(_) => FailureReason::RuntimeUnhealthy,
            }),
            message: Some(refusal.message().to_owned()),
            ..FailureInfo::default()
        });
    }
    let rollout = &inputs.history.rollout;
    let stable = rollout.stable.as_ref();
    [rollout.newest(), stable]
        .into_iter()
        .flatten()
        .find_map(|r| failure_of(inputs, r))
        .map(|info| with_time(inputs, info))
}

/// Adds a time to a failure: its own, or else the time at which it was first reported.
fn with_time(inputs: &StatusInputs<'_>, info: FailureInfo) -> FailureInfo {
    let before = inputs.before.model_status.as_ref();
    let before = before.and_then(|before| before.last_failure_info.as_ref());
    let same = before.filter(|before| {
        (&before.location, &before.model_revision_name, before.reason)
            == (&info.location, &info.model_revision_name, info.reason)
    });
    let recorded = same.and_then(|before| before.time.clone());
    FailureInfo { time: info.time.or(recorded).or_else(|| time(inputs.now)), ..info }
}

fn failure_of(inputs: &StatusInputs<'_>, name: &RevisionName) -> Option<FailureInfo> {
    let revision = inputs.revision(name)?;
    let (failure, replica) = last_failure(revision)?;
    Some(FailureInfo {
        location: replica.map(|replica| replica.name.to_string()),
        reason: Some(match failure.reason {
            Failed::StorageFailed => FailureReason::ModelLoadFailed,
            Failed::NotStarted
            | Failed::Exited
            | Failed::CrashLoopBackOff
            | Failed::OutOfMemory
            | Failed::Hung
            | Failed::NotReady
            | Failed::NodeNotReady => FailureReason::RuntimeUnhealthy,
        }),
        message: Some(failure.sentence(replica.and_then(|replica| replica.last_exit.as_ref()))),
        model_revision_name: Some(name.as_str().to_owned()),
        time: failure.at.and_then(time),
        exit_code: failure.exit_code.or_else(|| replica?.last_exit.as_ref()?.exit_code),
    })
}

/// Returns the latest failure of any replica, with the replica, even if other replicas are ready. If there is none,
/// returns the revision's failure, and otherwise the last exit of a program that was restarted.
fn last_failure(revision: &Revision) -> Option<(&Failure, Option<&Replica>)> {
    let last = latest(revision, |replica| replica.failure.as_ref());
    let of_revision = revision.failure.as_ref().map(|failure| (failure, None));
    last.or(of_revision).or_else(|| latest(revision, |replica| replica.last_exit.as_ref()))
}

/// Returns the latest of the failures that `failure` selects, with the replica.
fn latest(revision: &Revision, failure: impl Fn(&Replica) -> Option<&Failure>) -> Option<(&Failure, Option<&Replica>)> {
    let counted = revision.replicas.iter().filter(|replica| replica.phase.is_counted());
    let failed = counted.filter_map(|replica| Some((failure(replica)?, replica)));
    // The first of equal failures is chosen by name, so that the order of pods has no effect.
    let last = failed.min_by_key(|(failure, replica)| (Reverse(failure.at), &replica.name));
    last.map(|(failure, replica)| (failure, Some(replica)))
}

/// Counts the ready and the failing replicas of these revisions.
fn copies<'a>(inputs: &StatusInputs<'_>, revisions: impl IntoIterator<Item = &'a RevisionName>) -> ModelCopies {
    let revisions = revisions.into_iter().filter_map(|name| inputs.revision(name));
    let replicas = revisions.flat_map(|revision| &revision.replicas);
    let replicas: Vec<_> = replicas.filter(|replica| replica.phase.is_counted()).collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let ready = replicas.iter().filter(|r| r.phase == weir_cluster::Phase::Ready);
    let failed = replicas.iter().filter(|r| r.failure.is_some());
    ModelCopies { failed_copies: count(failed.count()), total_copies: Some(count(ready.count())) }
}

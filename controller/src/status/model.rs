//! `modelStatus`: what of the model is loaded.

use weir_cluster::{FailureReason as Failed, RevisionName};
use weir_crds::inference_service::{
    FailureInfo, FailureReason, ModelCopies, ModelState, ModelStates, ModelStatus, TransitionStatus,
};

use super::{Seen, State};
use crate::rollout::Stage;

pub(super) fn status(seen: &Seen<'_>) -> ModelStatus {
    let rollout = &seen.history.rollout;
    let states = rollout.stable.as_ref().map(|stable| ModelStates {
        active_model_state: state(seen, stable),
        target_model_state: rollout.newest().map(|newest| state(seen, newest)),
    });
    ModelStatus {
        transition_status: transition(seen),
        states,
        last_failure_info: failure(seen),
        copies: Some(copies(seen)),
    }
}

/// The state of one revision, for a canary's status.
pub(super) fn of_revision(seen: &Seen<'_>, revision: &RevisionName) -> ModelStatus {
    let active = state(seen, revision);
    ModelStatus {
        transition_status: by_state(&seen.state(revision)),
        states: Some(ModelStates {
            active_model_state: active,
            target_model_state: Some(active),
        }),
        last_failure_info: failure_of(seen, revision),
        copies: None,
    }
}

fn transition(seen: &Seen<'_>) -> TransitionStatus {
    if seen.valid.is_err() || seen.applied.is_err() {
        return TransitionStatus::InvalidSpec;
    }
    let rollout = &seen.history.rollout;
    match (&rollout.candidate, &rollout.stable) {
        (Some(candidate), _) => match (&candidate.stage, seen.state(&candidate.revision)) {
            (Stage::Waiting, State::Failed(_, _)) => TransitionStatus::BlockedByFailedLoad,
            (Stage::Waiting | Stage::Shifting(_) | Stage::RolledBack(_), _) => {
                TransitionStatus::InProgress
            }
        },
        (None, Some(stable)) => by_state(&seen.state(stable)),
        (None, None) => TransitionStatus::InProgress,
    }
}

fn by_state(state: &State) -> TransitionStatus {
    match state {
        State::Ready | State::Standby => TransitionStatus::UpToDate,
        State::Loading => TransitionStatus::InProgress,
        State::Failed(_, _) => TransitionStatus::BlockedByFailedLoad,
    }
}

fn state(seen: &Seen<'_>, revision: &RevisionName) -> ModelState {
    match seen.state(revision) {
        State::Ready => ModelState::Loaded,
        State::Standby => ModelState::Standby,
        State::Failed(_, _) => ModelState::FailedToLoad,
        State::Loading => match seen.revision(revision) {
            Some(revision) if !revision.replicas.is_empty() => ModelState::Loading,
            Some(_) | None => ModelState::Pending,
        },
    }
}

fn failure(seen: &Seen<'_>) -> Option<FailureInfo> {
    if let Err(faults) = seen.valid {
        return Some(FailureInfo {
            reason: Some(faults.reason),
            message: Some(faults.to_string()),
            ..FailureInfo::default()
        });
    }
    if let Err(because) = seen.applied {
        return Some(FailureInfo {
            reason: Some(FailureReason::InvalidPredictorSpec),
            message: Some(because.to_owned()),
            ..FailureInfo::default()
        });
    }
    let rollout = &seen.history.rollout;
    let stable = rollout.stable.as_ref();
    [rollout.newest(), stable]
        .into_iter()
        .flatten()
        .find_map(|r| failure_of(seen, r))
}

fn failure_of(seen: &Seen<'_>, name: &RevisionName) -> Option<FailureInfo> {
    let revision = seen.revision(name)?;
    let failure = revision.failure.as_ref()?;
    let failed = revision
        .replicas
        .iter()
        .find(|replica| replica.failure.is_some());
    Some(FailureInfo {
        location: failed.map(|replica| replica.name.to_string()),
        reason: Some(match failure.reason {
            Failed::StorageFailed => FailureReason::ModelLoadFailed,
            Failed::NotStarted | Failed::Exited | Failed::CrashLoopBackOff | Failed::NotReady => {
                FailureReason::RuntimeUnhealthy
            }
        }),
        message: Some(failure.message.to_string()),
        model_revision_name: Some(name.as_str().to_owned()),
        ..FailureInfo::default()
    })
}

fn copies(seen: &Seen<'_>) -> ModelCopies {
    let revisions = seen
        .history
        .rollout
        .revisions()
        .filter_map(|name| seen.revision(name));
    let replicas: Vec<_> = revisions.flat_map(|revision| &revision.replicas).collect();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let ready = replicas
        .iter()
        .filter(|r| r.phase == weir_cluster::Phase::Ready);
    let failed = replicas.iter().filter(|r| r.failure.is_some());
    ModelCopies {
        failed_copies: count(failed.count()),
        total_copies: Some(count(ready.count())),
    }
}

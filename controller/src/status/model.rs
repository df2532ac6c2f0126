//! `modelStatus`: the state of the model and its failures.

use weir_cluster::{FailureReason as Failed, RevisionName};
use weir_crds::inference_service::{
    FailureInfo, FailureReason, ModelCopies, ModelState, ModelStates, ModelStatus, TransitionStatus,
};

use super::{Refusal, RevisionState, StatusInputs};
use crate::rollout::Stage;

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
        copies: Some(copies(inputs)),
    }
}

/// Model status of one revision, for a canary.
pub(super) fn of_revision(inputs: &StatusInputs<'_>, revision: &RevisionName) -> ModelStatus {
    let active = state(inputs, revision);
    ModelStatus {
        transition_status: by_state(&inputs.state(revision)),
        states: Some(ModelStates {
            active_model_state: active,
            target_model_state: Some(active),
        }),
        last_failure_info: failure_of(inputs, revision),
        copies: None,
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
            (Stage::Waiting | Stage::Shifting(_) | Stage::RolledBack(_), _) => {
                TransitionStatus::InProgress
            }
        },
        (None, Some(stable)) => by_state(&inputs.state(stable)),
        (None, None) => TransitionStatus::InProgress,
    }
}

fn by_state(state: &RevisionState) -> TransitionStatus {
    match state {
        RevisionState::Ready | RevisionState::Standby | RevisionState::Restarting => {
            TransitionStatus::UpToDate
        }
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
}

fn failure_of(inputs: &StatusInputs<'_>, name: &RevisionName) -> Option<FailureInfo> {
    let revision = inputs.revision(name)?;
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

fn copies(inputs: &StatusInputs<'_>) -> ModelCopies {
    let revisions = inputs
        .history
        .rollout
        .revisions()
        .filter_map(|name| inputs.revision(name));
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

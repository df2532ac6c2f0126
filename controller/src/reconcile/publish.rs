//! Telling people how it is.

use std::sync::Arc;

use weir_cluster::{FailureReason, ServiceName};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::state::ServiceState;
use super::{Observed, in_time};
use crate::status::{Seen, status as told};
use crate::{ControllerError, Event, EventKind, Service, Source, Subject, Transition};

/// Reports the status of a service, if it is another one; and an event, if it became ready or ceased to
/// be.
pub(super) async fn status(
    source: &dyn Source,
    observed: &Observed,
    service: &Arc<Service>,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    let Some(next) = status_of(observed, service, state) else {
        return Ok(());
    };
    if next == *state.status {
        return Ok(());
    }
    let event = readiness(&state.status, &next);
    let next = Arc::new(next);
    let reported = source.publish_status(&service.name, next.clone());
    in_time("reporting a status", reported).await?;
    state.status = next;
    match event {
        Some(event) => {
            in_time(
                "telling an event",
                source.publish_event(&service.name, event),
            )
            .await
        }
        None => Ok(()),
    }
}

/// None before it was looked at.
fn status_of(
    observed: &Observed,
    service: &Service,
    state: &ServiceState,
) -> Option<InferenceServiceStatus> {
    let valid = state.valid.as_ref()?;
    Some(told(&Seen {
        declared: service,
        valid: valid.as_ref().map(|valid| &**valid),
        history: &state.history,
        plan: state.plan.as_ref(),
        applied: state.applied(),
        snapshot: &observed.snapshot,
        reports: &observed.reports,
        conflicts: observed.conflicts_of(&service.name),
        before: &state.status,
        now: observed.now,
    }))
}

/// Tells that a rollout moved.
pub(super) async fn moved(
    source: &dyn Source,
    service: &ServiceName,
    moved: &Transition,
) -> Result<(), ControllerError> {
    let (kind, reason) = match moved {
        Transition::Shifted(_, _) => (EventKind::Normal, "TrafficShifted"),
        Transition::Promoted(_) => (EventKind::Normal, "RevisionPromoted"),
        Transition::RolledBack(_, _) => (EventKind::Warning, "RevisionRolledBack"),
    };
    let event = Event {
        kind,
        subject: Subject::Service,
        reason,
        message: moved.to_string(),
    };
    in_time("telling an event", source.publish_event(service, event)).await
}

fn readiness(before: &InferenceServiceStatus, next: &InferenceServiceStatus) -> Option<Event> {
    let now = ready(next)?;
    let was = ready(before);
    if was.is_some_and(|was| was.status == now.status && was.message == now.message) {
        return None;
    }
    let was_ready = was.is_some_and(|was| was.status == ConditionStatus::True);
    match now.status {
        ConditionStatus::True if !was_ready => Some(Event {
            kind: EventKind::Normal,
            subject: Subject::Service,
            reason: "InferenceServiceReady",
            message: "it is ready".to_owned(),
        }),
        ConditionStatus::False => Some(Event {
            kind: EventKind::Warning,
            subject: subject(now),
            reason: "InferenceServiceNotReady",
            message: now.message.clone().unwrap_or_default(),
        }),
        ConditionStatus::True | ConditionStatus::Unknown => None,
    }
}

/// Whose fault it is that a service is not ready.
fn subject(ready: &Condition) -> Subject {
    let is_of_replicas = |reason: &str| FailureReason::ALL.iter().any(|r| r.label() == reason);
    match ready.reason.as_deref().is_some_and(is_of_replicas) {
        true => Subject::Replicas,
        false => Subject::Service,
    }
}

/// The condition `Ready`.
pub(super) fn ready(status: &InferenceServiceStatus) -> Option<&Condition> {
    let mut conditions = status.conditions.iter();
    conditions.find(|condition| condition.kind == Condition::READY)
}

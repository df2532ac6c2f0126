//! Telling people how it is.

use std::sync::Arc;

use weir_cluster::{FailureReason, ServiceName};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::memory::Memory;
use super::{World, in_time};
use crate::status::{Seen, status as told};
use crate::{ControllerError, Declared, Event, EventKind, Move, Service, Subject};

/// Reports the status of a service, if it is another one; and an event, if it became ready or ceased to
/// be.
pub(super) async fn status(
    declared: &dyn Declared,
    world: &World,
    service: &Arc<Service>,
    memory: &mut Memory,
) -> Result<(), ControllerError> {
    let Some(next) = status_of(world, service, memory) else {
        return Ok(());
    };
    if next == *memory.status {
        return Ok(());
    }
    let event = readiness(&memory.status, &next);
    let next = Arc::new(next);
    let reported = declared.report(&service.name, next.clone());
    in_time("reporting a status", reported).await?;
    memory.status = next;
    match event {
        Some(event) => in_time("telling an event", declared.tell(&service.name, event)).await,
        None => Ok(()),
    }
}

/// None before it was looked at.
fn status_of(world: &World, service: &Service, memory: &Memory) -> Option<InferenceServiceStatus> {
    let valid = memory.valid.as_ref()?;
    Some(told(&Seen {
        declared: service,
        valid: valid.as_ref().map(|valid| &**valid),
        history: &memory.history,
        plan: memory.plan.as_ref(),
        applied: memory.applied(),
        snapshot: &world.snapshot,
        reports: &world.reports,
        conflicts: world.conflicts_of(&service.name),
        before: &memory.status,
        now: world.now,
    }))
}

/// Tells that a rollout moved.
pub(super) async fn moved(
    declared: &dyn Declared,
    service: &ServiceName,
    moved: &Move,
) -> Result<(), ControllerError> {
    let (kind, reason) = match moved {
        Move::Shifted(_, _) => (EventKind::Normal, "TrafficShifted"),
        Move::Promoted(_) => (EventKind::Normal, "RevisionPromoted"),
        Move::RolledBack(_, _) => (EventKind::Warning, "RevisionRolledBack"),
    };
    let event = Event {
        kind,
        subject: Subject::Service,
        reason,
        message: moved.to_string(),
    };
    in_time("telling an event", declared.tell(service, event)).await
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

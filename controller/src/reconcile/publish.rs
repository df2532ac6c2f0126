//! Publishing status and events of a service.

use weir_cluster::{FailureReason, ServiceName};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::composed_statuses::{ComposedStatuses, Published};
use super::deadline::in_time;
use super::kept_status::KeptStatus;
use super::observed::Observed;
use super::state::ServiceState;
use crate::declaration::DeclaredService;
use crate::error::ControllerError;
use crate::event::{Event, EventType, Subject};
use crate::rollout::Transition;
use crate::source::Source;
use crate::status::{ROLLOUT_COMPLETE, StatusInputs, status as computed};

/// Publishes a changed status, and an event if the service's readiness changed.
pub(super) async fn status(
    source: &dyn Source,
    statuses: &ComposedStatuses,
    observed: &Observed,
    declared: &DeclaredService,
    state: &mut ServiceState,
) -> Result<(), ControllerError> {
    let before = state.status.read();
    let next = computed(&inputs(observed, declared, state, &before));
    let is_overwritten = observed.overwritten.contains(&declared.service.name);
    if next == before && !is_overwritten {
        return Ok(());
    }
    let service = &declared.service.name;
    let kept = KeptStatus::from(&next);
    let published = statuses.publish(source, &observed.declaration, (service, before, next));
    let Published { before, next } = published.await?;
    state.status = kept;
    for event in [readiness(&before, &next), failed_rollout(&before, &next)].into_iter().flatten() {
        let published = source.publish_event(service, event);
        in_time("publishing an event", published).await?;
    }
    Ok(())
}

fn inputs<'a>(
    observed: &'a Observed,
    declared: &'a DeclaredService,
    state: &'a ServiceState,
    before: &'a InferenceServiceStatus,
) -> StatusInputs<'a> {
    let served = declared.served(&state.history);
    let errors = declared.validation.as_ref().err();
    StatusInputs {
        declared: &declared.service,
        validation: served.map(|valid| &**valid).map_err(|errors| &**errors),
        unserved: errors.map(|errors| &**errors),
        history: &state.history,
        plan: state.plan.as_ref(),
        applied: state.applied(),
        unavailable: state.unavailable.as_deref(),
        snapshot: &observed.snapshot,
        reports: &observed.reports,
        untrusted: &observed.untrusted,
        conflicts: observed.conflicts_of(&declared.service.name),
        before,
        now: observed.now,
    }
}

/// Publishes an event about a transition of a rollout.
pub(super) async fn transition(
    source: &dyn Source,
    service: &ServiceName,
    transition: &Transition,
) -> Result<(), ControllerError> {
    let (kind, reason) = match transition {
        Transition::Shifted(_, _) => (EventType::Normal, "TrafficShifted"),
        Transition::Promoted(_) => (EventType::Normal, "RevisionPromoted"),
        Transition::RolledBack(_, _) => (EventType::Warning, "RevisionRolledBack"),
    };
    let event = Event { kind, subject: Subject::Service, reason, message: transition.to_string() };
    in_time("publishing an event", source.publish_event(service, event)).await
}

fn readiness(before: &InferenceServiceStatus, next: &InferenceServiceStatus) -> Option<Event> {
    let now = next.condition(Condition::READY)?;
    let was = before.condition(Condition::READY);
    if was.is_some_and(|was| was.status == now.status && was.message == now.message) {
        return None;
    }
    let was_ready = was.is_some_and(|was| was.status == ConditionStatus::True);
    match now.status {
        ConditionStatus::True if !was_ready => Some(Event {
            kind: EventType::Normal,
            subject: Subject::Service,
            reason: "InferenceServiceReady",
            message: "the service is ready".to_owned(),
        }),
        ConditionStatus::False => Some(Event {
            kind: EventType::Warning,
            subject: subject(now),
            reason: "InferenceServiceNotReady",
            message: now.message.clone().unwrap_or_default(),
        }),
        ConditionStatus::True | ConditionStatus::Unknown => None,
    }
}

/// Returns an event about a candidate that fails to start while the stable revision serves. If no revision serves, the
/// event about the service's readiness reports the failure.
fn failed_rollout(before: &InferenceServiceStatus, next: &InferenceServiceStatus) -> Option<Event> {
    let now = next.condition(ROLLOUT_COMPLETE)?;
    let was = before.condition(ROLLOUT_COMPLETE);
    let is_ready = next.condition(Condition::READY)?.status == ConditionStatus::True;
    let is_new = was.is_none_or(|was| was.status != now.status || was.message != now.message);
    let fails = now.status == ConditionStatus::False && subject(now) == Subject::Replicas;
    (is_ready && is_new && fails).then(|| Event {
        kind: EventType::Warning,
        subject: Subject::Replicas,
        reason: "RevisionFailed",
        message: now.message.clone().unwrap_or_default(),
    })
}

/// Returns the part of the service to which a false condition refers.
fn subject(condition: &Condition) -> Subject {
    let is_of_replicas = |reason: &str| FailureReason::ALL.iter().any(|r| r.label() == reason);
    if condition.reason.as_deref().is_some_and(is_of_replicas) { Subject::Replicas } else { Subject::Service }
}

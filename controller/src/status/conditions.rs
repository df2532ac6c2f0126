//! Conditions of the status: `Ready`, and those from which it follows.

use weir_cluster::{FailureReason, RevisionName};
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::{RevisionState, StatusInputs, room, route_is_live, scaled_by, shared_gpus, time, untrusted};
use crate::history::Canary;
use crate::manifest::annotations::DISABLE_AUTO_UPDATE;
use crate::manifest::field_error::ValidationErrors;
use crate::manifest::validate::Validated;
use crate::rollout::{Candidate, Hold, Purpose, Rollout, Stage, Strategy};
use crate::turns;

use ConditionStatus::{False, True, Unknown};

/// Condition that is true if no rollout is in progress. During a rollout it is unknown, because tools that judge by all
/// conditions, such as Argo CD, take a false one for a failure.
pub(crate) const ROLLOUT_COMPLETE: &str = "RolloutComplete";
/// Condition that is true if a host belongs to an older service.
const HOST_CONFLICT: &str = "HostConflict";
/// Condition that is true if some desired replicas cannot start while others serve.
const REPLICAS_UNPLACED: &str = "ReplicasUnplaced";
/// Condition that is true if gateways do not trust the certificates of some replicas, which get no requests for this
/// reason. It is the reason of a predictor's readiness as well if that holds for all of its replicas.
const REPLICAS_UNTRUSTED: &str = "ReplicasUntrusted";
/// Condition that is true if replicas share GPUs with other pods that can slow them down or take their memory.
const GPU_NOT_ISOLATED: &str = "GpuNotIsolated";
/// Condition that is true if another autoscaler sets replicas although the manifest leaves them to Weir's.
const SCALED_BY_ANOTHER: &str = "ScaledByAnother";
/// Condition that is true if pods cannot be made as the manifest says, because its runtime is gone or does not fit,
/// while the existing pods serve.
const RUNTIME_UNUSABLE: &str = "RuntimeUnusable";
/// Condition that is true if the manifest has fields without effect.
const FIELDS_IGNORED: &str = "FieldsIgnored";

/// Message of a stopped service.
const STOPPED: &str = "stopped by the annotation serving.kserve.io/stop";

/// Status, reason and message of a condition.
#[derive(Clone)]
struct Assessment {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

pub(super) fn conditions(inputs: &StatusInputs<'_>) -> Vec<Condition> {
    let predictor = predictor(inputs);
    let ingress = ingress(inputs);
    let ready = ready(inputs, &predictor, &ingress);
    let mut conditions = vec![
        (Condition::READY, ready, None),
        (Condition::PREDICTOR_READY, predictor, None),
        (Condition::INGRESS_READY, ingress, None),
        (Condition::STOPPED, stopped(inputs), Some("Info")),
    ];
    let canaries = canaries(inputs);
    conditions.extend(canaries.map(|assessment| (Condition::CANARY_PREDICTOR_READY, assessment, Some("Info"))));
    conditions.extend(rollout(inputs).map(|assessment| (ROLLOUT_COMPLETE, assessment, Some("Info"))));
    conditions.extend(runtime_unusable(inputs).map(|assessment| (RUNTIME_UNUSABLE, assessment, Some("Warning"))));
    conditions.extend(conflicts(inputs).map(|assessment| (HOST_CONFLICT, assessment, Some("Warning"))));
    conditions.extend(unplaced(inputs).map(|assessment| (REPLICAS_UNPLACED, assessment, Some("Warning"))));
    conditions.extend(untrusted(inputs).map(|assessment| (REPLICAS_UNTRUSTED, assessment, Some("Warning"))));
    conditions.extend(scaled_by_another(inputs).map(|assessment| (SCALED_BY_ANOTHER, assessment, Some("Warning"))));
    conditions.extend(shared_gpu(inputs).map(|assessment| (GPU_NOT_ISOLATED, assessment, Some("Info"))));
    conditions.extend(ignored(inputs).map(|assessment| (FIELDS_IGNORED, assessment, Some("Info"))));
    let each = conditions.into_iter();
    each.map(|(kind, assessment, severity)| condition(inputs, kind, assessment, severity)).collect()
}

fn condition(inputs: &StatusInputs<'_>, kind: &str, assessment: Assessment, severity: Option<&str>) -> Condition {
    let before = inputs.before.condition(kind);
    let same = before.filter(|before| before.status == assessment.status);
    let since = same.and_then(|before| before.last_transition_time.clone());
    Condition {
        kind: kind.to_owned(),
        status: assessment.status,
        reason: Some(assessment.reason.to_owned()),
        message: Some(assessment.message).filter(|message| !message.is_empty()),
        severity: severity.map(str::to_owned),
        last_transition_time: since.or_else(|| time(inputs.now)),
    }
}

fn assess(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Assessment {
    Assessment { status, reason, message: message.into() }
}

/// Returns the worse of both. An invalid spec is never ready, whatever still runs.
fn ready(inputs: &StatusInputs<'_>, predictor: &Assessment, ingress: &Assessment) -> Assessment {
    if let Err(errors) = inputs.validation {
        return assess(False, "InvalidSpec", located(inputs, errors));
    }
    let worst = [False, Unknown].into_iter().find_map(|status| {
        let mut both = [predictor, ingress].into_iter();
        both.find(|assessment| assessment.status == status)
    });
    worst.cloned().unwrap_or_else(|| predictor.clone())
}

fn located(inputs: &StatusInputs<'_>, errors: &ValidationErrors) -> String {
    let each = errors.list.iter();
    let each = each.map(|error| inputs.declared.located(&error.field, &error.message));
    each.collect::<Vec<_>>().join("; ")
}

fn predictor(inputs: &StatusInputs<'_>) -> Assessment {
    if is_stopped(inputs) {
        return assess(False, "Stopped", STOPPED);
    }
    if let Err(refusal) = inputs.applied {
        return assess(False, refusal.reason(), refusal.message());
    }
    let rollout = &inputs.history.rollout;
    let Some(stable) = &rollout.stable else {
        return assess(Unknown, "NotPlanned", "no revision has been created yet");
    };
    let serving = worst_serving(inputs, stable);
    match &rollout.candidate {
        Some(candidate) if candidate.stage == Stage::Waiting => beside_candidate(inputs, stable, serving, candidate),
        Some(_) | None => serving,
    }
}

/// Returns the worst assessment of the revisions that receive requests: the requests for a revision that has a share
/// but does not serve get no answer.
fn worst_serving(inputs: &StatusInputs<'_>, stable: &RevisionName) -> Assessment {
    let percent = inputs.history.rollout.percent();
    let candidate = inputs.history.rollout.candidate.as_ref();
    let stable = Some(stable).filter(|_| percent < 100);
    let candidate = candidate.map(|one| &one.revision).filter(|_| percent > 0);
    let all: Vec<_> = [stable, candidate].into_iter().flatten().map(|name| revision(inputs, name)).collect();
    let worst = [False, Unknown, True].into_iter().find_map(|status| {
        let mut all = all.iter();
        all.find(|assessment| assessment.status == status)
    });
    worst.cloned().unwrap_or_else(|| assess(True, "Ready", ""))
}

/// Assesses a service while its candidate starts or fails to start: it is as ready as its stable revision.
fn beside_candidate(
    inputs: &StatusInputs<'_>,
    stable: &RevisionName,
    serving: Assessment,
    candidate: &Candidate,
) -> Assessment {
    let name = &candidate.revision;
    let next = match (room::wait(inputs, candidate), inputs.state(name)) {
        (_, RevisionState::Ready) => return serving,
        (Some(wait), _) => wait.at(inputs.now),
        (None, RevisionState::Loading | RevisionState::Restarting | RevisionState::Standby) => {
            format!("{} is starting{}", name.as_str(), download(inputs, name))
        }
        (None, RevisionState::Failed(reason, message)) => failed(name, reason, &message),
    };
    let mut message = match serving.status {
        True => format!("{next}; {} keeps serving", stable.as_str()),
        False | Unknown => format!("{}; {next}", serving.message),
    };
    message.push_str(&unavailable(inputs));
    let reason = match serving.status {
        True => "RollingOut",
        False | Unknown => serving.reason,
    };
    assess(serving.status, reason, message)
}

fn failed(name: &RevisionName, reason: FailureReason, message: &str) -> String {
    format!("{} {}: {message}", name.as_str(), verb(reason))
}

fn revision(inputs: &StatusInputs<'_>, name: &RevisionName) -> Assessment {
    let name_text = name.as_str();
    match inputs.state(name) {
        RevisionState::Ready => match untrusted::all(inputs, name) {
            Some(message) => assess(False, REPLICAS_UNTRUSTED, message),
            None => assess(True, "Ready", ""),
        },
        RevisionState::Standby => {
            let message = format!("{name_text} is scaled to zero; the next request starts it");
            assess(True, "Standby", message)
        }
        RevisionState::Restarting => {
            let message = format!("{name_text} is starting again; requests wait for it");
            assess(True, "Restarting", message)
        }
        RevisionState::Loading => {
            let message = format!("{name_text} is starting{}", download(inputs, name));
            assess(Unknown, "Loading", message + &unavailable(inputs))
        }
        RevisionState::Failed(reason, message) => assess(False, reason.label(), failed(name, reason, &message)),
    }
}

/// Returns a clause with the progress of the download of a revision's model; empty if no download is known.
fn download(inputs: &StatusInputs<'_>, name: &RevisionName) -> String {
    let mut replicas = inputs.revision(name).into_iter().flat_map(|revision| &revision.replicas);
    let download = replicas.find_map(|replica| replica.download.as_deref());
    download.map_or(String::new(), |download| format!(": {download}"))
}

/// Returns a clause that says why the plan was not sent or answered, so that a starting revision may not exist yet;
/// empty if the plan was answered.
fn unavailable(inputs: &StatusInputs<'_>) -> String {
    inputs.unavailable.map_or(String::new(), |because| format!("; {because}; Weir retries"))
}

/// Returns the verb with which a failure's sentence begins.
fn verb(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::StorageFailed
        | FailureReason::NotStarted
        | FailureReason::Exited
        | FailureReason::CrashLoopBackOff
        | FailureReason::OutOfMemory => "failed to start",
        FailureReason::Hung | FailureReason::NotReady | FailureReason::NodeNotReady => "does not serve",
    }
}

/// Assesses the route. Once live, it stays so while any gateway runs: a new gateway gets the route before it accepts
/// requests, and a gateway whose reports do not arrive keeps the route that it has.
fn ingress(inputs: &StatusInputs<'_>) -> Assessment {
    let gateways = &inputs.snapshot.gateways;
    let applied = inputs.applied.unwrap_or_default();
    let live = route_is_live(applied, gateways, inputs.reports);
    let before = inputs.before.condition(Condition::INGRESS_READY);
    let was_live = before.is_some_and(|before| before.status == True);
    match (inputs.applied, live) {
        (_, _) if is_stopped(inputs) => assess(False, "Stopped", STOPPED),
        (Err(refusal), _) => assess(False, refusal.reason(), refusal.message()),
        (Ok(_), Ok(())) => assess(True, "Live", ""),
        (Ok(_), Err(_)) if was_live && !gateways.is_empty() => assess(True, "Live", ""),
        (Ok(_), Err(message)) => assess(Unknown, "NotLive", message),
    }
}

fn is_stopped(inputs: &StatusInputs<'_>) -> bool {
    inputs.validation.is_ok_and(|validated| validated.is_stopped)
}

fn stopped(inputs: &StatusInputs<'_>) -> Assessment {
    if is_stopped(inputs) { assess(True, "Stopped", STOPPED) } else { assess(False, "Running", "") }
}

fn canaries(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let serving = |validated: &&Validated| !validated.is_stopped;
    inputs.validation.ok().filter(serving)?;
    let canaries = &inputs.history.canaries;
    canaries.first()?;
    let lacks: Vec<_> = canaries.iter().filter_map(|canary| not_ready(inputs, canary)).collect();
    let limited: Vec<_> = canaries.iter().filter_map(|canary| limited_share(inputs, canary)).collect();
    Some(match (&lacks[..], &limited[..]) {
        ([], []) => assess(True, "AllCanariesReady", ""),
        ([], limited) => assess(Unknown, "InProgress", limited.join("; ")),
        (lacks, limited) => {
            let not_ready = format!("not ready: {}", lacks.join(", "));
            let parts: Vec<_> = [not_ready].into_iter().chain(limited.iter().cloned()).collect();
            assess(False, "CanariesNotReady", parts.join("; "))
        }
    })
}

/// Returns the tag of a canary that is not ready, with the cause if it failed; `None` if it serves.
fn not_ready(inputs: &StatusInputs<'_>, canary: &Canary) -> Option<String> {
    let tag = canary.tag.as_str();
    match inputs.state(&canary.revision) {
        RevisionState::Ready | RevisionState::Standby | RevisionState::Restarting => None,
        RevisionState::Loading => Some(tag.to_owned()),
        RevisionState::Failed(_, message) => Some(format!("{tag} ({message})")),
    }
}

/// Returns a message if a canary that serves receives fewer requests than the manifest asks for, until more of its
/// replicas are ready.
fn limited_share(inputs: &StatusInputs<'_>, canary: &Canary) -> Option<String> {
    let share = canary.progress.share;
    if share.is_reached() || not_ready(inputs, canary).is_some() {
        return None;
    }
    let revision = inputs.revision(&canary.revision)?;
    let (ready, desired) = (revision.ready().count(), revision.desired);
    let cause = revision.unplaced.as_ref().map_or(String::new(), |cause| format!(": {}", cause.message));
    let message = format!(
        "{} receives {} of {} % of the requests until more of its replicas are ready: {ready} of {desired} are now{cause}",
        canary.tag.as_str(),
        share.percent,
        share.target
    );
    Some(message)
}

fn rollout(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let rollout = &inputs.history.rollout;
    let stable = rollout.stable.as_ref()?;
    if let Some(behind) = behind(inputs) {
        return Some(behind);
    }
    let Some(candidate) = &rollout.candidate else {
        return Some(first_or_last(inputs, stable));
    };
    let name = candidate.revision.as_str();
    let assessment = match &candidate.stage {
        // A stopped service starts nothing and sends no requests to the candidate.
        Stage::Waiting | Stage::Shifting(_) if is_stopped(inputs) => {
            return Some(assess(False, "Stopped", ""));
        }
        Stage::Waiting => waits_beside(inputs, stable, candidate),
        Stage::Shifting(_) => shifting(rollout, candidate),
        Stage::RolledBack(reason) => {
            let message = format!("{name} was rolled back: {reason}");
            assess(False, "RolledBack", message)
        }
    };
    let kept = Some(kept(inputs)).filter(|kept| !kept.is_empty());
    let all: Vec<_> = [assessment.message].into_iter().chain(kept).collect();
    Some(assess(assessment.status, assessment.reason, all.join("; ")))
}

/// Assesses a rollout without a candidate: it is complete, unless the only revision has never been ready.
fn first_or_last(inputs: &StatusInputs<'_>, stable: &RevisionName) -> Assessment {
    if inputs.history.has_loaded(stable) {
        assess(True, "RolledOut", kept(inputs))
    } else if is_stopped(inputs) {
        assess(False, "Stopped", "")
    } else {
        waits(inputs, stable)
    }
}

/// Assesses a revision that gets no requests before it is ready.
fn waits(inputs: &StatusInputs<'_>, name: &RevisionName) -> Assessment {
    match inputs.state(name) {
        RevisionState::Failed(reason, message) => assess(False, reason.label(), failed(name, reason, &message)),
        RevisionState::Ready | RevisionState::Standby | RevisionState::Loading | RevisionState::Restarting => {
            assess(Unknown, "Waiting", format!("{} is not ready yet", name.as_str()))
        }
    }
}

/// Returns the condition for a candidate that receives no requests until it is ready, while the stable revision serves.
fn waits_beside(inputs: &StatusInputs<'_>, stable: &RevisionName, candidate: &Candidate) -> Assessment {
    let waits = match room::wait(inputs, candidate) {
        Some(wait) if inputs.now < wait.deadline => assess(Unknown, "WaitingForRoom", wait.in_time()),
        Some(wait) => assess(False, FailureReason::NotStarted.label(), wait.overdue()),
        None => waits(inputs, &candidate.revision),
    };
    let serves = revision(inputs, stable).status == True && waits.reason != "Waiting";
    let also = serves.then(|| format!("{} keeps serving", stable.as_str()));
    let all: Vec<_> = [waits.message].into_iter().chain(also).collect();
    assess(waits.status, waits.reason, all.join("; "))
}

/// Assesses the share of a candidate. A share that the manifest sets is the goal, so the rollout counts as complete.
fn shifting(rollout: &Rollout, candidate: &Candidate) -> Assessment {
    let (name, share) = (candidate.revision.as_str(), candidate.share);
    let message = format!("{name} receives {} % of the requests", share.percent);
    match (&rollout.strategy, rollout.share_deadline().and_then(time)) {
        (_, Some(until)) => {
            let (target, until) = (share.target, until.0);
            let message =
                format!("{message}, rising to {target} % as its replicas become ready, at the latest at {until}");
            assess(Unknown, "InProgress", message)
        }
        (Strategy::Manual(Some(_)), None) => {
            let message = format!("{message}, the share that canaryTrafficPercent sets");
            assess(True, "TrafficSplit", message)
        }
        (Strategy::Manual(None) | Strategy::Automatic(_), None) => assess(Unknown, "InProgress", message),
    }
}

/// Reports a changed runtime that the service does not follow, or not yet.
fn behind(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let (validated, history) = (inputs.validation.ok()?, inputs.history);
    if validated.is_stopped || !history.is_behind(validated) {
        return None;
    }
    let name = history.rollout.newest()?.as_str();
    Some(if turns::keeps_runtime(validated, history, inputs.snapshot) {
        let message = format!(
            "{name} keeps its runtime as it was, by the annotation {DISABLE_AUTO_UPDATE}: the next change of the \
             predictor's pod takes the changed one"
        );
        assess(True, "AutoUpdateDisabled", message)
    } else {
        let message = format!(
            "the runtime of {name} has changed; its rollout starts once fewer than {} other services are rolling out such a change",
            turns::AT_ONCE
        );
        assess(Unknown, "WaitingForTurn", message)
    })
}

/// Returns until when revisions keep replicas for a rollback; empty if none does, or if the service is stopped.
fn kept(inputs: &StatusInputs<'_>) -> String {
    if is_stopped(inputs) {
        return String::new();
    }
    let holds = inputs.history.rollout.holds(inputs.now);
    let each = holds.filter_map(|hold| match hold.purpose {
        Purpose::Rollback => kept_until(&hold),
        Purpose::Takeover => None,
    });
    each.collect::<Vec<_>>().join("; ")
}

fn kept_until(hold: &Hold) -> Option<String> {
    let (name, count) = (hold.revision.as_str(), hold.replicas);
    let noun = if count == 1 { "replica" } else { "replicas" };
    let until = time(hold.until)?.0;
    Some(format!("{name} keeps {count} {noun} until {until}, for an instant rollback"))
}

/// Reports a runtime that is gone or no longer fits, while the service runs on.
fn runtime_unusable(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    inputs.validation.ok()?;
    let errors = located(inputs, inputs.unserved?);
    let name = inputs.history.rollout.newest()?.as_str();
    let message = format!(
        "{errors}; {name} keeps running unchanged. Until this is fixed, changes of the predictor's pod or model have no effect"
    );
    Some(assess(True, RUNTIME_UNUSABLE, message))
}

fn conflicts(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let conflicts = inputs.conflicts.iter();
    let conflicting: Vec<_> = conflicts
        .map(|conflict| {
            let (host, holder) = (&conflict.host, &conflict.holder);
            format!("host {host} belongs to {holder}, which is older")
        })
        .collect();
    let cure = "rename this service or its canary, or delete the older service";
    (!conflicting.is_empty()).then(|| assess(True, HOST_CONFLICT, format!("{}: {cure}", conflicting.join(", "))))
}

/// Reports replicas that cannot start while others serve. If none serves, the predictor's condition gives the reason.
fn unplaced(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let revisions = inputs.snapshot.revisions_of(&inputs.declared.name);
    let each = revisions.filter_map(|revision| {
        let cause = &revision.unplaced.as_ref()?.message;
        let (name, desired) = (revision.name.as_str(), revision.desired);
        let ready = revision.ready().count();
        let serves = 0 < ready && ready < desired as usize;
        serves.then(|| format!("{name} has {ready} of {desired} replicas: {cause}"))
    });
    let messages: Vec<_> = each.collect();
    (!messages.is_empty()).then(|| assess(True, REPLICAS_UNPLACED, messages.join("; ")))
}

/// Reports replicas that get no requests because of their certificates.
fn untrusted(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    untrusted::message(inputs).map(|message| assess(True, REPLICAS_UNTRUSTED, message))
}

fn scaled_by_another(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let sentences: Vec<_> = scaled_by::undeclared(inputs).into_iter().collect();
    (!sentences.is_empty()).then(|| assess(True, SCALED_BY_ANOTHER, sentences.join("; ")))
}

fn shared_gpu(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let sentences = shared_gpus::sentences(inputs);
    (!sentences.is_empty()).then(|| assess(True, GPU_NOT_ISOLATED, sentences.join("; ")))
}

/// Reports fields of the manifest without effect, and fields of its pod without effect on this platform.
fn ignored(inputs: &StatusInputs<'_>) -> Option<Assessment> {
    let validated = inputs.validation.ok()?;
    let ignored_fields = validated.ignored_fields.iter();
    let mut parts: Vec<_> = ignored_fields.map(|ignored| format!("{} ({})", ignored.field, ignored.reason)).collect();
    let newest = inputs.history.rollout.newest().and_then(|name| inputs.revision(name));
    if let Some(ignored) = newest.map(|revision| &revision.ignored_fields)
        && !ignored.is_empty()
    {
        let fields = ignored.join(", ");
        parts.push(format!("{fields} (on this platform)"));
    }
    (!parts.is_empty()).then(|| assess(True, FIELDS_IGNORED, parts.join(", ")))
}

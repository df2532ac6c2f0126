//! `Ready`, and what it follows from.

use weir_cluster::RevisionName;
use weir_crds::inference_service::{Condition, ConditionStatus};

use super::{Seen, State, route_is_live, time};
use crate::rollout::Stage;
use crate::validate::{Run, Validated};

use ConditionStatus::{False, True, Unknown};

/// Whether all the new revision's work is done.
const ROLLOUT_COMPLETE: &str = "RolloutComplete";
/// A host belongs to an older service.
const HOST_CONFLICT: &str = "HostConflict";
/// Fields that have no effect.
const FIELDS_IGNORED: &str = "FieldsIgnored";

/// A condition as it was found.
#[derive(Clone)]
struct Finding {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
}

pub(super) fn conditions(seen: &Seen<'_>) -> Vec<Condition> {
    let predictor = predictor(seen);
    let ingress = ingress(seen);
    let ready = ready(seen, &predictor, &ingress);
    let mut found = vec![
        (Condition::READY, ready, None),
        (Condition::PREDICTOR_READY, predictor, None),
        (Condition::INGRESS_READY, ingress, None),
        (Condition::STOPPED, stopped(seen), Some("Info")),
    ];
    let canaries = canaries(seen);
    found.extend(canaries.map(|found| (Condition::CANARY_PREDICTOR_READY, found, Some("Info"))));
    found.extend(rollout(seen).map(|found| (ROLLOUT_COMPLETE, found, Some("Info"))));
    found.extend(conflicts(seen).map(|found| (HOST_CONFLICT, found, Some("Warning"))));
    found.extend(ignored(seen).map(|found| (FIELDS_IGNORED, found, Some("Info"))));
    let each = found.into_iter();
    each.map(|(kind, found, severity)| condition(seen, kind, found, severity))
        .collect()
}

fn condition(seen: &Seen<'_>, kind: &str, found: Finding, severity: Option<&str>) -> Condition {
    let before = seen
        .before
        .conditions
        .iter()
        .find(|before| before.kind == kind);
    let same = before.filter(|before| before.status == found.status);
    let since = same.and_then(|before| before.last_transition_time.clone());
    Condition {
        kind: kind.to_owned(),
        status: found.status,
        reason: Some(found.reason.to_owned()),
        message: Some(found.message).filter(|message| !message.is_empty()),
        severity: severity.map(str::to_owned),
        last_transition_time: since.or_else(|| time(seen.now)),
    }
}

fn finding(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Finding {
    Finding {
        status,
        reason,
        message: message.into(),
    }
}

/// The least of both; a spec that cannot be served is never ready, whatever still runs.
fn ready(seen: &Seen<'_>, predictor: &Finding, ingress: &Finding) -> Finding {
    if let Err(faults) = seen.valid {
        let located = faults.list.iter();
        let located = located.map(|fault| seen.declared.located(&fault.field, &fault.because));
        return finding(False, "InvalidSpec", located.collect::<Vec<_>>().join("; "));
    }
    let worst = [False, Unknown].into_iter().find_map(|status| {
        let mut both = [predictor, ingress].into_iter();
        both.find(|found| found.status == status)
    });
    worst.cloned().unwrap_or_else(|| predictor.clone())
}

fn predictor(seen: &Seen<'_>) -> Finding {
    if is_stopped(seen) {
        return finding(False, "Stopped", "the service was told to stop");
    }
    if let Err(because) = seen.applied {
        return finding(False, "Refused", because);
    }
    let rollout = &seen.history.rollout;
    let Some(stable) = &rollout.stable else {
        return finding(Unknown, "NotPlanned", "nothing of it runs yet");
    };
    let waiting = rollout.candidate.as_ref();
    match waiting.filter(|candidate| candidate.stage == Stage::Waiting) {
        Some(candidate) => {
            let serves = format!("{} serves", stable.as_str());
            revision(seen, &candidate.revision, Some(&serves))
        }
        None => revision(seen, stable, None),
    }
}

fn revision(seen: &Seen<'_>, name: &RevisionName, serves: Option<&str>) -> Finding {
    let also = serves.map_or(String::new(), |serves| format!("; {serves}"));
    let name_text = name.as_str();
    match seen.state(name) {
        State::Ready => finding(True, "Ready", ""),
        State::Standby => {
            let message = format!("{name_text} sleeps until a request comes");
            finding(True, "Standby", message)
        }
        State::Loading => finding(Unknown, "Loading", format!("{name_text} comes up{also}")),
        State::Failed(reason, message) => {
            let message = format!("{name_text} does not become ready: {message}{also}");
            finding(False, reason, message)
        }
    }
}

fn ingress(seen: &Seen<'_>) -> Finding {
    let applied = seen.applied.unwrap_or_default();
    let live = route_is_live(applied, &seen.snapshot.gateways, seen.reports);
    match (is_stopped(seen), seen.applied, live) {
        (true, _, _) => finding(False, "Stopped", "the service was told to stop"),
        (false, Err(because), _) => finding(False, "Refused", because),
        (false, Ok(_), Ok(())) => finding(True, "Live", ""),
        (false, Ok(_), Err(because)) => finding(Unknown, "NotLive", because),
    }
}

fn is_stopped(seen: &Seen<'_>) -> bool {
    seen.valid.is_ok_and(|valid| valid.run == Run::Stopped)
}

fn stopped(seen: &Seen<'_>) -> Finding {
    match is_stopped(seen) {
        true => finding(True, "Stopped", "serving.kserve.io/stop is true"),
        false => finding(False, "Running", ""),
    }
}

fn canaries(seen: &Seen<'_>) -> Option<Finding> {
    let serving = |valid: &&Validated| valid.run == Run::Serving;
    seen.valid.ok().filter(serving)?;
    let canaries = &seen.history.canaries;
    canaries.first()?;
    let lacks: Vec<_> = canaries
        .iter()
        .filter(|c| !matches!(seen.state(&c.revision), State::Ready | State::Standby))
        .map(|canary| canary.tag.as_str())
        .collect();
    Some(match lacks.is_empty() {
        true => finding(True, "AllCanariesReady", ""),
        false => finding(
            False,
            "CanariesNotReady",
            format!("not ready: {}", lacks.join(", ")),
        ),
    })
}

fn rollout(seen: &Seen<'_>) -> Option<Finding> {
    let rollout = &seen.history.rollout;
    rollout.stable.as_ref()?;
    let Some(candidate) = &rollout.candidate else {
        return Some(finding(True, "RolledOut", ""));
    };
    let name = candidate.revision.as_str();
    Some(match &candidate.stage {
        Stage::Waiting => finding(False, "Waiting", format!("{name} was not ready yet")),
        Stage::Shifting(_) => {
            let percent = rollout.percent();
            finding(
                False,
                "InProgress",
                format!("{name} gets {percent} % of the requests"),
            )
        }
        Stage::RolledBack(because) => finding(
            False,
            "RolledBack",
            format!("{name} gets no requests any more: {because}"),
        ),
    })
}

fn conflicts(seen: &Seen<'_>) -> Option<Finding> {
    let conflicts = seen.conflicts.iter();
    let lost: Vec<_> = conflicts
        .map(|conflict| format!("{} belongs to {}", conflict.host, conflict.holder))
        .collect();
    (!lost.is_empty()).then(|| finding(True, HOST_CONFLICT, lost.join(", ")))
}

/// What the manifest's fields do not do, and what those of its pod do not do on this platform.
fn ignored(seen: &Seen<'_>) -> Option<Finding> {
    let valid = seen.valid.ok()?;
    let ignored_fields = valid.ignored_fields.iter();
    let mut parts: Vec<_> = ignored_fields
        .map(|note| format!("{} ({})", note.field, note.because))
        .collect();
    let newest = seen
        .history
        .rollout
        .newest()
        .and_then(|name| seen.revision(name));
    if let Some(without) = newest.map(|revision| &revision.ignored_fields)
        && !without.is_empty()
    {
        parts.push(format!(
            "{} (no effect on this platform)",
            without.join(", ")
        ));
    }
    (!parts.is_empty()).then(|| finding(True, FIELDS_IGNORED, parts.join(", ")))
}

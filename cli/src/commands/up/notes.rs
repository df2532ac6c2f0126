//! Notes about a service that its table row does not show: ignored fields, the stage of a rollout, restarts.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use weir_cluster::{Revision, ServiceName};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

use crate::commands::status_table::ExitRow;

/// Conditions that are printed while they have this status, with the prefix of the printed note.
const NOTED: [(&str, ConditionStatus, &str); 8] = [
    ("RolloutComplete", ConditionStatus::Unknown, "rollout: "),
    ("RolloutComplete", ConditionStatus::False, "rollout: "),
    ("RolloutComplete", ConditionStatus::True, ""),
    ("CanaryPredictorReady", ConditionStatus::Unknown, "canary: "),
    ("CanaryPredictorReady", ConditionStatus::False, "canary: "),
    ("FieldsIgnored", ConditionStatus::True, "no effect: "),
    ("HostConflict", ConditionStatus::True, ""),
    ("RuntimeUnusable", ConditionStatus::True, ""),
];

/// Returns the notes about a service.
pub(super) fn of<'a>(
    service: &ServiceName,
    status: Option<&InferenceServiceStatus>,
    revisions: impl Iterator<Item = &'a Arc<Revision>>,
) -> Vec<String> {
    let noted = NOTED.iter().filter_map(|(kind, while_status, prefix)| {
        let condition = status?.condition(kind)?;
        note(condition, *while_status).map(|message| format!("{prefix}{message}"))
    });
    let mut notes: Vec<String> = noted.collect();
    for revision in revisions {
        let (name, restarts) = (revision.name.as_str(), restarts(revision));
        if restarts > 0 {
            let times = match restarts {
                1 => "once".to_owned(),
                _ => format!("{restarts} times"),
            };
            let cause = last_exit(revision).map_or(String::new(), |exit| {
                let at = exit.at.map_or(String::new(), |at| format!(" at {at}"));
                format!(", the last time{at}: {}", exit.message)
            });
            notes.push(format!("{name} was restarted {times}{cause}; `weir logs {service}` shows what it printed"));
        }
    }
    notes
}

/// Returns the number of restarts of a revision's replicas.
pub(super) fn restarts(revision: &Revision) -> u32 {
    let replicas = revision.replicas.iter();
    replicas.map(|replica| replica.restarts).sum()
}

/// Returns the latest unexpected exit of a replica's program.
pub(super) fn last_exit(revision: &Revision) -> Option<ExitRow> {
    let replicas = revision.replicas.iter();
    let exits = replicas.filter_map(|replica| Some((replica, replica.last_exit.as_ref()?)));
    let (replica, exit) = exits.max_by_key(|(_, exit)| exit.at)?;
    let at = exit.at.and_then(|at| i64::try_from(at).ok());
    let at = at.and_then(|at| Timestamp::from_second(at).ok());
    Some(ExitRow {
        replica: replica.name.to_string(),
        reason: exit.reason.label().to_owned(),
        message: exit.message.to_string(),
        exit_code: exit.exit_code,
        at: at.map(|at| at.to_string()),
    })
}

fn note(condition: &Condition, status: ConditionStatus) -> Option<&str> {
    let message = condition.message.as_deref();
    message.filter(|_| condition.status == status)
}

//! What the table of services does not show: fields without effect, the stage of a rollout, restarts.

use std::sync::Arc;

use weir_cluster::{Revision, ServiceName};
use weir_crds::InferenceServiceStatus;
use weir_crds::inference_service::{Condition, ConditionStatus};

/// Conditions that are worth a note, each while it has this status, and what the note begins with.
const NOTED: [(&str, ConditionStatus, &str); 6] = [
    ("RolloutComplete", ConditionStatus::Unknown, "rollout: "),
    ("RolloutComplete", ConditionStatus::False, "rollout: "),
    ("RolloutComplete", ConditionStatus::True, ""),
    ("FieldsIgnored", ConditionStatus::True, "no effect: "),
    ("HostConflict", ConditionStatus::True, ""),
    ("RuntimeUnusable", ConditionStatus::True, ""),
];

/// The notes about a service.
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
            notes.push(format!(
                "{name} was restarted {times}; `weir logs {service}` shows what it printed"
            ));
        }
    }
    notes
}

/// Restarts of a revision's replicas.
pub(super) fn restarts(revision: &Revision) -> u32 {
    let replicas = revision.replicas.iter();
    replicas.map(|replica| replica.restarts).sum()
}

fn note(condition: &Condition, status: ConditionStatus) -> Option<&str> {
    let message = condition.message.as_deref();
    message.filter(|_| condition.status == status)
}

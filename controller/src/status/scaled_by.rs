//! Messages about other autoscalers that the service's manifest does not declare.

use std::collections::BTreeSet;

use weir_cluster::{OtherAutoscaler, ReplicasField, Revision};

use super::StatusInputs;
use crate::manifest::annotations::AUTOSCALER_CLASS;
use crate::manifest::scaling::ScaledBy;

/// Returns a sentence for each autoscaler that sets replicas although the manifest leaves them to Weir's.
pub(super) fn undeclared(inputs: &StatusInputs<'_>) -> BTreeSet<String> {
    let Ok(validated) = inputs.validation else {
        return BTreeSet::new();
    };
    let declared = validated.predictor.scaling.by;
    let revisions = inputs.snapshot.revisions_of(&inputs.declared.name);
    let each = revisions.filter_map(|revision| {
        let other = revision.scaled_by.as_ref()?;
        sentence(revision, other, declared)
    });
    each.collect()
}

fn sentence(revision: &Revision, other: &OtherAutoscaler, declared: ScaledBy) -> Option<String> {
    let (name, revision_name) = (&other.name, revision.name.as_str());
    match (other.writes, declared) {
        (_, ScaledBy::Others) | (ReplicasField::MinReplicas, ScaledBy::MinReplicas) => None,
        (ReplicasField::MinReplicas, ScaledBy::Weir) => Some(format!(
            "{name} sets minReplicas, and Weir's autoscaler keeps at least that number: {}",
            cure(name, "none")
        )),
        (ReplicasField::Replicas, ScaledBy::Weir | ScaledBy::MinReplicas) => Some(format!(
            "{name} sets the replicas of {revision_name}, so Weir's autoscaler does not{}: {}",
            at_zero(revision),
            cure(name, "external")
        )),
    }
}

fn cure(name: &str, class: &str) -> String {
    format!("if this is intended, set the annotation {AUTOSCALER_CLASS}: {class}; otherwise delete {name}")
}

/// Returns what the message adds for a revision at zero: requests wake only revisions that Weir's autoscaler scales.
fn at_zero(revision: &Revision) -> &'static str {
    if revision.desired == 0 { "; there are none, and requests do not start one" } else { "" }
}

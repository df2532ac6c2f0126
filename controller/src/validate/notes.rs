//! What is given and has no effect: some of it is refused, the rest is named.

use weir_crds::{Effect, InferenceService, unsupported};

use super::{Found, Note};
use crate::annotations::{OURS, PREFIX};

pub(super) fn notes(written: &InferenceService, found: &mut Found) -> Vec<Note> {
    let mut notes = Vec::new();
    for given in unsupported(written) {
        match given.effect {
            Effect::Refused => found.add(given.field, format!("not supported: {}", given.reason)),
            Effect::Ignored => notes.push(Note {
                field: given.field,
                because: given.reason.to_owned(),
            }),
        }
    }
    let component = &written.spec.predictor.component;
    if component.scale_target.is_some() && component.scale_metric.is_none() {
        notes.push(Note {
            field: "spec.predictor.scaleTarget".to_owned(),
            because: "without scaleMetric, replicas follow queue delay".to_owned(),
        });
    }
    unknown_annotations(written, found);
    notes
}

/// An annotation of ours that nobody knows is a slip of the pen, as an unknown field is.
fn unknown_annotations(written: &InferenceService, found: &mut Found) {
    let names = written
        .metadata
        .annotations
        .iter()
        .flat_map(|map| map.keys());
    for name in names.filter(|name| name.starts_with(PREFIX)) {
        if !OURS.contains(&&**name) {
            let field = format!("metadata.annotations[{name}]");
            found.add(field, format!("unknown; Weir knows {}", OURS.join(", ")));
        }
    }
}

//! What is given and has no effect: some of it is refused, the rest is named.

use weir_crds::{Effect, InferenceService, unsupported};

use super::{Found, IgnoredField};
use crate::annotations::{FOR_HPA, KNATIVE, KNATIVE_READ, OF_COMPONENTS, OURS, PREFIX};

pub(super) fn ignored_fields(written: &InferenceService, found: &mut Found) -> Vec<IgnoredField> {
    let mut ignored_fields = Vec::new();
    for given in unsupported(written) {
        match given.effect {
            Effect::Refused => found.add(given.field, format!("not supported: {}", given.reason)),
            Effect::Ignored => ignored_fields.push(IgnoredField {
                field: given.field,
                because: given.reason.to_owned(),
            }),
        }
    }
    let component = &written.spec.predictor.component;
    if component.scale_target.is_some() && component.scale_metric.is_none() {
        ignored_fields.push(IgnoredField {
            field: "spec.predictor.scaleTarget".to_owned(),
            because: "without scaleMetric, replicas follow queue delay".to_owned(),
        });
    }
    annotations(written, found, &mut ignored_fields);
    ignored_fields
}

/// Where annotations stand that bound replicas: the service's, and the component's.
const PATHS: [&str; 2] = ["metadata.annotations", "spec.predictor.annotations"];

fn annotations(
    written: &InferenceService,
    found: &mut Found,
    ignored_fields: &mut Vec<IgnoredField>,
) {
    let maps = [
        &written.metadata.annotations,
        &written.spec.predictor.component.annotations,
    ];
    for (path, map) in PATHS.into_iter().zip(maps) {
        for name in map.iter().flat_map(|map| map.keys()) {
            let field = format!("{path}[{name}]");
            if name.starts_with(PREFIX) {
                ours(path, name, field, found);
            } else if is_unread(name) && !ignored_fields.iter().any(|note| note.field == field) {
                let because = "replicas follow queue delay".to_owned();
                ignored_fields.push(IgnoredField { field, because });
            }
        }
    }
}

/// One of ours that nobody knows is a slip of the pen, as an unknown field is.
fn ours(path: &str, name: &str, field: String, found: &mut Found) {
    if !OURS.contains(&name) {
        found.add(field, format!("unknown; Weir knows {}", OURS.join(", ")));
    } else if path != PATHS[0] && !OF_COMPONENTS.contains(&name) {
        found.add(field, format!("it belongs to {}", PATHS[0]));
    }
}

/// Whether it is about scaling and is not read.
fn is_unread(name: &str) -> bool {
    let knative = name.strip_prefix(KNATIVE);
    knative.is_some_and(|name| !KNATIVE_READ.contains(&name)) || FOR_HPA.contains(&name)
}

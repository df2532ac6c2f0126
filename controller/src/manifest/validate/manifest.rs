//! Identity of the manifest's part in the pods: if that is unchanged while the pods differ, the runtime has changed.

use std::collections::BTreeMap;

use weir_cluster::Identity;
use weir_crds::inference_service::{Component, Predictor};

use super::{Context, ManifestIdentity};
use crate::manifest::annotations::{CONTROL_ROUTES, KNATIVE, MAX_BATCH_TIME, PREFIX, SHAPING_OF_PODS, STORAGE_DIGEST};

/// Weir's annotations that affect pods.
const SHAPING: [&str; 3] = [CONTROL_ROUTES, MAX_BATCH_TIME, STORAGE_DIGEST];

type Annotations = BTreeMap<String, String>;

/// Hashes the manifest's part in a predictor's pods. Bounds, shares and timeouts are left out, and so is the content of
/// the runtime: at most its name is included.
pub(super) fn identity(context: &Context<'_>, predictor: &Predictor) -> ManifestIdentity {
    let own = &predictor.component;
    let shaping = |name: &str| SHAPING.contains(&name) || SHAPING_OF_PODS.contains(&name);
    let others = |name: &str| !name.starts_with(KNATIVE) && !name.starts_with(PREFIX);
    let component = Component {
        labels: own.labels.clone(),
        annotations: kept(own.annotations.as_ref(), |name| shaping(name) || others(name)),
        ..Component::default()
    };
    let predictor = Predictor { component, ..predictor.clone() };
    let of_service = kept(context.object.metadata.annotations.as_ref(), shaping);
    let tracing = &context.object.spec.tracing;
    // The values were read from JSON or YAML, so they can be written as JSON.
    let manifest = (predictor, of_service, tracing);
    let value = if context.model_stamps.is_empty() {
        serde_json::to_value(manifest)
    } else {
        serde_json::to_value((manifest, context.model_stamps))
    };
    let value = value.unwrap_or_default();
    ManifestIdentity { meaning: Identity::of_canonical_form(value.clone()), text: Identity::of_value(value) }
}

fn kept(annotations: Option<&Annotations>, is_kept: impl Fn(&str) -> bool) -> Option<Annotations> {
    let mut annotations = annotations?.clone();
    annotations.retain(|name, _| is_kept(name));
    Some(annotations).filter(|left| !left.is_empty())
}

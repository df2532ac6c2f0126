//! Fields that Weir does not support: some are refused, the others are listed as ignored.

use std::collections::BTreeMap;

use weir_cluster::nearest;
use weir_crds::{Effect, InferenceService, SET_FOR_ALL_VARIANTS, unsupported};

use super::error_list::ErrorList;
use crate::manifest::annotations::{
    AUTOSCALER_CLASS, HPA_ANNOTATIONS, KNATIVE, KNATIVE_READ, KNATIVE_UNREAD, KSERVE, KSERVE_READ, MAX_BATCH_TIME,
    OF_COMPONENTS, PREFIX, STORAGE_DIGEST, WEIR_ANNOTATIONS,
};
use crate::manifest::field_error::IgnoredField;

/// Finalizer that KServe's controller adds to services and removes.
const KSERVE_FINALIZER: &str = "inferenceservice.finalizers";

pub(super) fn ignored_fields(written: &InferenceService, errors: &mut ErrorList) -> Vec<IgnoredField> {
    let mut ignored_fields = Vec::new();
    for given in unsupported(written) {
        match given.effect {
            Effect::Refused => errors.add(given.field, format!("not supported: {}", given.reason)),
            Effect::Ignored => {
                ignored_fields.push(IgnoredField { field: given.field, reason: given.reason.to_owned() });
            }
        }
    }
    let component = &written.spec.predictor.component;
    if component.scale_target.is_some() && component.scale_metric.is_none() {
        ignored_fields.push(IgnoredField {
            field: "spec.predictor.scaleTarget".to_owned(),
            reason: "without scaleMetric, replicas are scaled by queue delay".to_owned(),
        });
    }
    ignored_fields.extend(behavior(written));
    ignored_fields.extend(finalizer(written));
    annotations(written, errors, &mut ignored_fields);
    for (i, canary) in written.spec.canary.iter().enumerate() {
        let path = format!("spec.canary[{i}].predictor.annotations");
        let map = &canary.predictor.component.annotations;
        ignored_fields.extend(of_canary(&path, map.as_ref(), errors));
    }
    ignored_fields
}

/// Returns the annotations of a canary that have no effect, because it is scaled like `spec.predictor`.
fn of_canary(path: &str, map: Option<&BTreeMap<String, String>>, errors: &mut ErrorList) -> Vec<IgnoredField> {
    let mut ignored = Vec::new();
    for (name, value) in map.into_iter().flatten() {
        let field = format!("{path}[{name}]");
        let reason = no_effect(path, name, value).or_else(|| of_all_variants(name));
        if name.starts_with(PREFIX) {
            check_weir(path, name, field.clone(), errors);
        }
        ignored.extend(reason.map(|reason| IgnoredField { field, reason }));
    }
    ignored
}

/// Returns why an annotation about replicas, which `spec.predictor` may set, has no effect on a canary.
fn of_all_variants(name: &str) -> Option<String> {
    let is_of_pods = [MAX_BATCH_TIME, STORAGE_DIGEST].contains(&name);
    let is_of_weir = OF_COMPONENTS.contains(&name) && !is_of_pods;
    let is_read = name.strip_prefix(KNATIVE).is_some_and(|name| KNATIVE_READ.contains(&name));
    (is_of_weir || is_read).then(|| SET_FOR_ALL_VARIANTS.to_owned())
}

/// Reports KServe's finalizer, which blocks the deletion of a service that came from KServe.
fn finalizer(written: &InferenceService) -> Option<IgnoredField> {
    let finalizers = written.metadata.finalizers.as_ref()?;
    let is_there = finalizers.iter().any(|one| one == KSERVE_FINALIZER);
    is_there.then(|| IgnoredField {
        field: format!("metadata.finalizers[{KSERVE_FINALIZER}]"),
        reason: "only KServe's controller removes it: without that controller, remove it by hand, or the service cannot be deleted"
            .to_owned(),
    })
}

/// Reports scaling limits that have no effect because another autoscaler sets the replicas.
fn behavior(written: &InferenceService) -> Option<IgnoredField> {
    let component = &written.spec.predictor.component;
    component.auto_scaling.as_ref()?.behavior.as_ref()?;
    let mut maps = [&component.annotations, &written.metadata.annotations].into_iter();
    let class = maps.find_map(|map| map.as_ref()?.get(AUTOSCALER_CLASS))?;
    matches!(class.trim(), "none" | "external").then(|| IgnoredField {
        field: "spec.predictor.autoScaling.behavior".to_owned(),
        reason: format!("another autoscaler sets the replicas ({AUTOSCALER_CLASS}: {class})"),
    })
}

/// Paths of the annotations about scaling: the service's and the component's.
const PATHS: [&str; 2] = ["metadata.annotations", "spec.predictor.annotations"];

fn annotations(written: &InferenceService, errors: &mut ErrorList, ignored_fields: &mut Vec<IgnoredField>) {
    let maps = [&written.metadata.annotations, &written.spec.predictor.component.annotations];
    for (path, map) in PATHS.into_iter().zip(maps) {
        for (name, value) in map.iter().flat_map(|map| map.iter()) {
            let field = format!("{path}[{name}]");
            if name.starts_with(PREFIX) {
                check_weir(path, name, field, errors);
            } else if let Some(reason) = no_effect(path, name, value)
                && !ignored_fields.iter().any(|ignored| ignored.field == field)
            {
                ignored_fields.push(IgnoredField { field, reason });
            }
        }
    }
}

/// Returns why an annotation of Knative or KServe has no effect; None if it has one, or if it is of neither.
fn no_effect(path: &str, name: &str, value: &str) -> Option<String> {
    if is_unread(name) || is_unread_metric(name, value) {
        return Some("replicas are scaled by queue delay".to_owned());
    }
    if let Some(knative) = name.strip_prefix(KNATIVE)
        && !KNATIVE_READ.contains(&knative)
    {
        let meant = nearest(KNATIVE_READ, knative).map(|meant| format!("{KNATIVE}{meant}"));
        return Some(unknown(meant.as_deref()));
    }
    let is_unknown = name.starts_with(KSERVE) && !KSERVE_READ.contains(&name);
    // Annotations of a component are meant for its pods.
    (is_unknown && path == PATHS[0]).then(|| unknown(nearest(KSERVE_READ, name)))
}

/// Describes an unknown annotation, with the one that was probably meant.
fn unknown(meant: Option<&str>) -> String {
    match meant {
        Some(meant) => format!("Weir does not know it; did you mean {meant}?"),
        None => "Weir does not know it".to_owned(),
    }
}

/// Refuses unknown annotations of Weir, like unknown fields, and misplaced ones.
fn check_weir(path: &str, name: &str, field: String, errors: &mut ErrorList) {
    if !WEIR_ANNOTATIONS.contains(&name) {
        let message = match nearest(WEIR_ANNOTATIONS, name) {
            Some(meant) => format!("unknown annotation; did you mean {meant}?"),
            None => format!("unknown annotation; known: {}", WEIR_ANNOTATIONS.join(", ")),
        };
        errors.add(field, message);
    } else if path != PATHS[0] && !OF_COMPONENTS.contains(&name) {
        errors.add(field, format!("move it to {}", PATHS[0]));
    }
}

/// Returns true if an annotation names a metric by which replicas are not scaled; unknown metrics are errors.
fn is_unread_metric(name: &str, value: &str) -> bool {
    name.strip_prefix(KNATIVE) == Some("metric") && matches!(value.trim(), "cpu" | "memory")
}

/// Returns true if an annotation configures Knative's autoscaler or a HorizontalPodAutoscaler.
fn is_unread(name: &str) -> bool {
    let knative = name.strip_prefix(KNATIVE);
    knative.is_some_and(|name| KNATIVE_UNREAD.contains(&name)) || HPA_ANNOTATIONS.contains(&name)
}

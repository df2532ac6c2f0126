//! `spec.canary`: variants of the predictor, each with its share of the traffic.

use serde_json::Value;
use weir_cluster::Tag;
use weir_crds::inference_service::{Canary, Component, Predictor};

use super::annotations::LATEST;
use super::error_list::ErrorList;
use super::validated::CanaryVariant;
use super::{Context, component, predictor};
use crate::manifest::scaling::Scaling;

/// Tag of the previously rolled-out revision.
pub(crate) const PREVIOUS: &str = "prev";

/// Most canaries of a service. Each contains the whole pod of the stable predictor, so without a limit a manifest of a
/// hundred kilobytes could become hundreds of megabytes.
const MOST_CANARIES: usize = 20;

/// Reads the canaries; `bounds` are the stable predictor's.
pub(super) fn read(context: &Context<'_>, bounds: &Scaling, errors: &mut ErrorList) -> Vec<CanaryVariant> {
    let canaries = &context.object.spec.canary;
    let sum: i64 = canaries.iter().map(|c| i64::from(c.traffic_percent)).sum();
    if sum > 100 {
        let message = "sum of canary trafficPercent values must be <= 100";
        errors.add("spec.canary", message);
    }
    if canaries.len() > MOST_CANARIES {
        let message = format!("{} canaries: write at most {MOST_CANARIES}", canaries.len());
        errors.add("spec.canary", message);
    }
    let each = canaries.iter().enumerate().take(MOST_CANARIES).filter_map(|(i, canary)| {
        let mut read = one(context, i, canary, errors)?;
        read.variant.scaling = share(bounds, canary);
        Some(read)
    });
    each.collect()
}

fn one(context: &Context<'_>, i: usize, canary: &Canary, errors: &mut ErrorList) -> Option<CanaryVariant> {
    let path = format!("spec.canary[{i}]");
    let stable = &context.object.spec.predictor;
    let percent = percent(&path, canary, errors);
    let path = format!("{path}.predictor");
    check(&path, stable, &canary.predictor, errors);
    component::check(&path, &in_bounds(&canary.predictor.component), errors);
    let tag = name(context, i, &path, errors);
    let merged = merged(stable, &canary.predictor);
    let merged = merged.map_err(|error| {
        errors.add(&*path, format!("cannot be merged into spec.predictor: {error}"));
    });
    let variant = predictor::variant(context, &path, &merged.ok()?, errors)?;
    Some(CanaryVariant { tag: tag?, percent: percent?, variant })
}

fn percent(path: &str, canary: &Canary, errors: &mut ErrorList) -> Option<u8> {
    let percent = u8::try_from(canary.traffic_percent).ok();
    let percent = percent.filter(|percent| *percent <= 100);
    if percent.is_none() {
        let field = format!("{path}.trafficPercent");
        errors.add(field, "trafficPercent must be between 0 and 100");
    }
    percent
}

/// Checks that a canary sets no bounds of its own other than a lower minimum, because its replicas follow the stable
/// predictor's.
fn check(path: &str, stable: &Predictor, canary: &Predictor, errors: &mut ErrorList) {
    let own = &canary.component;
    for (field, is_set) in [
        ("workerSpec", canary.worker_spec.is_some()),
        ("maxReplicas", own.max_replicas.is_some()),
        ("scaleTarget", own.scale_target.is_some()),
        ("scaleMetric", own.scale_metric.is_some()),
        ("autoScaling", own.auto_scaling.is_some()),
    ] {
        if is_set {
            let message = format!("canary must not set {field}");
            errors.add(format!("{path}.{field}"), message);
        }
    }
    let least = stable.component.min_replicas.unwrap_or(weir_crds::MIN_REPLICAS);
    if own.min_replicas.is_some_and(|min| min > least) {
        let message = "canary minReplicas must not exceed stable predictor minReplicas";
        errors.add(format!("{path}.minReplicas"), message);
    }
}

/// Returns the component without its target, so that [`component::check`] does not report the target, which is refused
/// already.
fn in_bounds(component: &Component) -> Component {
    Component { scale_target: None, ..component.clone() }
}

fn name(context: &Context<'_>, i: usize, path: &str, errors: &mut ErrorList) -> Option<Tag> {
    let field = format!("{path}.name");
    let spec = &context.object.spec;
    let Some(name) = &spec.canary[i].predictor.name else {
        errors.add(field, "canary predictor.name is required");
        return None;
    };
    let mut before = spec.canary[..i].iter();
    if before.any(|canary| canary.predictor.name.as_ref() == Some(name)) {
        errors.add(&*field, "canary predictor.name is duplicated");
    }
    if spec.predictor.name.as_ref() == Some(name) {
        let message = "canary predictor.name conflicts with stable predictor name";
        errors.add(&*field, message);
    }
    if [LATEST, PREVIOUS].contains(&&**name) {
        let message = format!("`{LATEST}` and `{PREVIOUS}` are reserved; choose another name");
        errors.add(&*field, message);
    }
    let tag = Tag::new(name);
    if let Err(error) = &tag {
        errors.add(field, error.to_string());
    }
    tag.ok()
}

/// Returns the bounds of a canary: its own minimum, or its share of the stable predictor's.
fn share(stable: &Scaling, canary: &Canary) -> Scaling {
    let percent = u32::try_from(canary.traffic_percent).unwrap_or(0).min(100);
    let min = stable.policy.min;
    let share = min.saturating_mul(percent).div_ceil(100).max(min.min(1));
    let own = canary.predictor.component.min_replicas;
    let own = own.and_then(|min| u32::try_from(min).ok());
    stable.with_min(own.unwrap_or(share))
}

/// Merges a canary over the stable predictor field by field; lists are replaced as a whole.
fn merged(stable: &Predictor, canary: &Predictor) -> serde_json::Result<Predictor> {
    let mut merged = serde_json::to_value(stable)?;
    remove_excluded(&mut merged, canary);
    merge(&mut merged, serde_json::to_value(canary)?);
    serde_json::from_value(merged)
}

/// Removes `storageUri` from the stable predictor's fields if the canary has `storageUris`, and the reverse: a canary
/// may name its models in the other way, and a predictor must not have both.
fn remove_excluded(stable: &mut Value, canary: &Predictor) {
    let Value::Object(fields) = stable else { return };
    if canary.frameworks().any(|(_, model)| model.storage_uri.is_some()) {
        fields.remove("storageUris");
    }
    if !canary.storage_uris.is_empty() {
        fields.values_mut().filter_map(Value::as_object_mut).for_each(|model| drop(model.remove("storageUri")));
    }
}

fn merge(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                merge(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

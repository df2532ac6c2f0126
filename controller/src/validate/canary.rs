//! `spec.canary`: variants beside the predictor, each with its share.

use serde_json::Value;
use weir_cluster::Tag;
use weir_crds::inference_service::{Canary, Component, Predictor};

use super::annotations::LATEST;
use super::{CanaryVariant, Context, Found, component, predictor, right};
use crate::Scaling;

/// The tag of the revision that was rolled out before.
pub(crate) const PREVIOUS: &str = "prev";

/// Reads the canaries; `bounds` are the stable predictor's.
pub(super) fn read(
    context: &Context<'_>,
    bounds: &Scaling,
    found: &mut Found,
) -> Vec<CanaryVariant> {
    let canaries = &context.object.spec.canary;
    let sum: i64 = canaries.iter().map(|c| i64::from(c.traffic_percent)).sum();
    let because = "sum of canary trafficPercent values must be <= 100";
    found.check(right(sum <= 100), "spec.canary", because);
    let each = canaries.iter().enumerate();
    let each = each.filter_map(|(i, canary)| {
        let mut read = one(context, i, canary, found)?;
        read.variant.scaling = share(bounds, canary);
        Some(read)
    });
    each.collect()
}

fn one(
    context: &Context<'_>,
    i: usize,
    canary: &Canary,
    found: &mut Found,
) -> Option<CanaryVariant> {
    let path = format!("spec.canary[{i}]");
    let stable = &context.object.spec.predictor;
    let percent = percent(&path, canary, found);
    let path = format!("{path}.predictor");
    check(&path, stable, &canary.predictor, found);
    component::check(&path, &in_bounds(&canary.predictor.component), found);
    let tag = name(context, i, &path, found);
    let merged = merged(stable, &canary.predictor);
    let merged = merged.map_err(|error| {
        let because = format!("cannot be laid over spec.predictor: {error}");
        found.add(&*path, because);
    });
    let variant = predictor::variant(context, &path, &merged.ok()?, found)?;
    Some(CanaryVariant {
        tag: tag?,
        percent: percent?,
        variant,
    })
}

fn percent(path: &str, canary: &Canary, found: &mut Found) -> Option<u8> {
    let percent = u8::try_from(canary.traffic_percent).ok();
    let percent = percent.filter(|percent| *percent <= 100);
    let field = format!("{path}.trafficPercent");
    let because = "trafficPercent must be between 0 and 100";
    found.check(right(percent.is_some()), field, because);
    percent
}

/// What a canary, whose replicas follow the stable predictor's, cannot set.
fn check(path: &str, stable: &Predictor, canary: &Predictor, found: &mut Found) {
    let own = &canary.component;
    for (field, is_set) in [
        ("workerSpec", canary.worker_spec.is_some()),
        ("maxReplicas", own.max_replicas.is_some()),
        ("scaleTarget", own.scale_target.is_some()),
        ("scaleMetric", own.scale_metric.is_some()),
        ("autoScaling", own.auto_scaling.is_some()),
    ] {
        let because = format!("canary must not set {field}");
        found.check(right(!is_set), format!("{path}.{field}"), because);
    }
    let least = stable
        .component
        .min_replicas
        .unwrap_or(weir_crds::MIN_REPLICAS);
    let fits = own.min_replicas.is_none_or(|min| min <= least);
    let because = "canary minReplicas must not exceed stable predictor minReplicas";
    found.check(right(fits), format!("{path}.minReplicas"), because);
}

/// Its bounds as [`component::check`] takes them: a maximum is refused already.
fn in_bounds(component: &Component) -> Component {
    Component {
        max_replicas: None,
        scale_target: None,
        ..component.clone()
    }
}

fn name(context: &Context<'_>, i: usize, path: &str, found: &mut Found) -> Option<Tag> {
    let field = format!("{path}.name");
    let spec = &context.object.spec;
    let Some(name) = &spec.canary[i].predictor.name else {
        found.add(field, "canary predictor.name is required");
        return None;
    };
    let before = spec.canary[..i].iter();
    let twice = before.filter(|canary| canary.predictor.name.as_ref() == Some(name));
    let is_new = twice.count() == 0;
    found.check(
        right(is_new),
        &*field,
        "canary predictor.name is duplicated",
    );
    let is_other = spec.predictor.name.as_ref() != Some(name);
    let because = "canary predictor.name conflicts with stable predictor name";
    found.check(right(is_other), &*field, because);
    let is_free = ![LATEST, PREVIOUS].contains(&&**name);
    let because = format!("`{LATEST}` and `{PREVIOUS}` are the names of every service's own tags");
    found.check(right(is_free), &*field, because);
    let tag = Tag::new(name);
    if let Err(error) = &tag {
        found.add(field, error.to_string());
    }
    tag.ok()
}

/// As many replicas at least as its share of the stable predictor's, or as it says itself.
fn share(stable: &Scaling, canary: &Canary) -> Scaling {
    let percent = u32::try_from(canary.traffic_percent).unwrap_or(0).min(100);
    let min = stable.policy.min;
    let share = min.saturating_mul(percent).div_ceil(100).max(min.min(1));
    let own = canary.predictor.component.min_replicas;
    let own = own.and_then(|min| u32::try_from(min).ok());
    stable.with_min(own.unwrap_or(share))
}

/// A canary as it is meant: written over the stable predictor, field by field; lists as a whole.
fn merged(stable: &Predictor, canary: &Predictor) -> serde_json::Result<Predictor> {
    let mut merged = serde_json::to_value(stable)?;
    lay_over(&mut merged, serde_json::to_value(canary)?);
    serde_json::from_value(merged)
}

fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (key, value) in above {
                lay_over(below.entry(key).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

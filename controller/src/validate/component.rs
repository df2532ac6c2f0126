//! What predictor and canaries have in common: bounds, concurrency, metrics.

use std::num::NonZeroU32;
use std::time::Duration;

use weir_cluster::{Economy, ScaleTarget, ScalingPolicy};
use weir_crds::MIN_REPLICAS;
use weir_crds::inference_service::{Component, ScaleMetric};

use super::{Context, Found, right};
use crate::annotations::{self, Reader};
use crate::{ScaledBy, Scaling, duration};

/// Judges the numbers of a component by the definition's rules.
pub(super) fn check(path: &str, component: &Component, found: &mut Found) {
    let rules = replicas(component).into_iter().chain(requests(component));
    for (kept, field, because) in rules {
        found.check(right(kept), format!("{path}.{field}"), because);
    }
    logger(path, component, found);
}

/// Whether a rule is kept, its field, and what to say if it is not.
type Rule = (bool, &'static str, &'static str);

fn replicas(component: &Component) -> [Rule; 4] {
    let min = component.min_replicas.unwrap_or(MIN_REPLICAS);
    let max = component.max_replicas.unwrap_or(0);
    let fits = max <= 0 || min <= max;
    let target = component.scale_target.unwrap_or(1);
    let below = "'MinReplicas' cannot be less than 0";
    let above = "'MinReplicas' cannot be greater than MaxReplicas";
    [
        (min >= 0, "minReplicas", below),
        (
            max >= 0,
            "maxReplicas",
            "'MaxReplicas' cannot be less than 0",
        ),
        (fits, "minReplicas", above),
        (target >= 1, "scaleTarget", "the target must be at least 1"),
    ]
}

fn requests(component: &Component) -> [Rule; 4] {
    let concurrency = component.container_concurrency.unwrap_or(0);
    let fits = concurrency <= u32::MAX.into();
    let timeout = component.timeout.unwrap_or(0);
    let percent = component.canary_traffic_percent.unwrap_or(0);
    let percent = (0..=100).contains(&percent);
    let below = "parallelism cannot be less than 0";
    let above = "parallelism cannot be more than 4294967295";
    let outside = "canaryTrafficPercent must be between 0 and 100";
    [
        (concurrency >= 0, "containerConcurrency", below),
        (fits, "containerConcurrency", above),
        (timeout >= 0, "timeout", "timeout cannot be less than 0"),
        (percent, "canaryTrafficPercent", outside),
    ]
}

fn logger(path: &str, component: &Component, found: &mut Found) {
    let storage = component.logger.as_ref().and_then(|l| l.storage.as_ref());
    if let Some(storage) = storage.map(|storage| &storage.storage) {
        let all = storage.path.is_some() && storage.parameters.is_some() && storage.key.is_some();
        let field = format!("{path}.logger.storage");
        found.check(
            right(all),
            field,
            "logger storage needs path, parameters and key",
        );
    }
}

/// Requests in flight at one replica; 0 and absent are no limit.
pub(super) fn concurrency(component: &Component) -> Option<NonZeroU32> {
    let limit = component.container_concurrency?;
    NonZeroU32::new(u32::try_from(limit).ok()?)
}

/// The bounds of a component. Its own fields win over annotations, its own annotations over the
/// service's.
pub(super) fn scaling(context: &Context<'_>, component: &Component, found: &mut Found) -> Scaling {
    let mut reader = Reader::new([
        ("spec.predictor.annotations", component.annotations.as_ref()),
        (
            "metadata.annotations",
            context.object.metadata.annotations.as_ref(),
        ),
    ]);
    let scaling = Scaling {
        policy: policy(&mut reader, component),
        by: scaled_by(&mut reader),
        initial: either(&mut reader, "initial-scale", "initialScale", 0).unwrap_or(0),
    };
    found.list.append(&mut reader.faults);
    scaling
}

/// Bounds and targets; what is not written keeps its default.
fn policy(reader: &mut Reader<'_>, component: &Component) -> ScalingPolicy {
    let (min, max) = bounds(reader, component);
    let default = ScalingPolicy::default();
    let lasts = |name: &str, reader: &mut Reader<'_>| reader.duration(&knative(name));
    let percentile = "a percentile above 0 and at most 99.99";
    let quantile = reader.read(
        annotations::SLO_PERCENTILE,
        percentile,
        annotations::percentile,
    );
    let activation = reader.number(&knative("activation-scale"), 1);
    ScalingPolicy {
        min,
        max,
        queue_delay: queue_delay(reader).unwrap_or(default.queue_delay),
        quantile: quantile.unwrap_or(default.quantile),
        economy: economy(reader).unwrap_or(default.economy),
        target: target(reader, component),
        retention: lasts("scale-to-zero-pod-retention-period", reader),
        scale_down_delay: lasts("scale-down-delay", reader).unwrap_or(default.scale_down_delay),
        window: window(reader).unwrap_or(default.window),
        activation: activation
            .and_then(NonZeroU32::new)
            .unwrap_or(default.activation),
    }
}

/// A field goes before an annotation, but a least number of 1 may be nothing but the default, which an
/// API server fills in.
fn bounds(reader: &mut Reader<'_>, component: &Component) -> (u32, Option<NonZeroU32>) {
    let min = either(reader, "min-scale", "minScale", 0);
    let max = either(reader, "max-scale", "maxScale", 0);
    let field = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok());
    let written = field(component.min_replicas);
    let min = match (written, min) {
        (Some(1) | None, Some(annotated)) => annotated,
        (Some(written), _) => written,
        (None, None) => 1,
    };
    let max = field(component.max_replicas).filter(|max| *max > 0).or(max);
    // As KServe: a maximum below the minimum is raised to it. Zero is no maximum.
    let max = max.filter(|max| *max > 0).map(|max| max.max(min));
    (min, max.and_then(NonZeroU32::new))
}

fn queue_delay(reader: &mut Reader<'_>) -> Option<Duration> {
    let expected = "a length of time above 0, such as 500ms";
    reader.read(annotations::QUEUE_DELAY_TARGET, expected, |text| {
        duration::parse(text).filter(|delay| !delay.is_zero())
    })
}

fn economy(reader: &mut Reader<'_>) -> Option<Economy> {
    let expected = "`economy`, `balanced` or `latency`";
    reader.read(annotations::ECONOMY, expected, |text| match text {
        "economy" => Some(Economy::Economy),
        "balanced" => Some(Economy::Balanced),
        "latency" => Some(Economy::Latency),
        _ => None,
    })
}

/// Knative's own limits: in less there is nothing to count, and more is never followed.
fn window(reader: &mut Reader<'_>) -> Option<Duration> {
    let expected = "a length of time from 6s to 1h";
    let fits = |window: &Duration| (6..=3600).contains(&window.as_secs());
    reader.read(&knative("window"), expected, |text| {
        duration::parse(text).filter(fits)
    })
}

fn target(reader: &mut Reader<'_>, component: &Component) -> Option<ScaleTarget> {
    let annotated = reader
        .text(&knative("metric"))
        .map(|(_, text)| text.to_owned());
    let own = component.scale_target.map(f64::from);
    let annotated_target = reader.positive(&knative("target"));
    let target = own.or(annotated_target);
    let used = reader.positive(&knative("target-utilization-percentage"));
    let target = target.map(|target| target * used.unwrap_or(100.0) / 100.0);
    match (component.scale_metric, annotated.as_deref()) {
        (Some(ScaleMetric::Concurrency), _) | (None, Some("concurrency")) => {
            target.map(ScaleTarget::Concurrency)
        }
        (Some(ScaleMetric::Rps), _) | (None, Some("rps")) => target.map(ScaleTarget::Rps),
        // Knative's default metric is concurrency. A bare scaleTarget has none, and the ignored_fields say so.
        (None, None) if annotated_target.is_some() => target.map(ScaleTarget::Concurrency),
        (Some(ScaleMetric::Cpu | ScaleMetric::Memory) | None, None | Some(_)) => None,
    }
}

fn scaled_by(reader: &mut Reader<'_>) -> ScaledBy {
    let expected = "a supported autoscaler class: hpa, keda, external or none";
    let class = reader.read(annotations::AUTOSCALER_CLASS, expected, |text| match text {
        "hpa" | "keda" => Some(ScaledBy::Weir),
        "external" | "none" => Some(ScaledBy::Others),
        _ => None,
    });
    class.unwrap_or(ScaledBy::Weir)
}

fn either(reader: &mut Reader<'_>, name: &str, older: &str, least: u32) -> Option<u32> {
    let newer = reader.number(&knative(name), least);
    newer.or_else(|| reader.number(&knative(older), least))
}

fn knative(name: &str) -> String {
    format!("{}{name}", annotations::KNATIVE)
}

//! Fields that predictors and canaries share: bounds, concurrency, metrics.

use std::num::NonZeroU32;
use std::time::Duration;

use weir_cluster::{Economy, ScaleTarget, ScalingPolicy};
use weir_crds::MIN_REPLICAS;
use weir_crds::inference_service::{Component, ScaleMetric};

use super::error_list::ErrorList;
use super::{Context, behavior};
use crate::manifest::annotations::{self, Reader};
use crate::manifest::duration;
use crate::manifest::scaling::{ScaledBy, Scaling};

/// Checks the numbers of a component by the rules of its schema.
pub(super) fn check(path: &str, component: &Component, errors: &mut ErrorList) {
    let rules = replicas(component).into_iter().chain(requests(component));
    for (is_kept, field, message) in rules {
        if !is_kept {
            errors.add(format!("{path}.{field}"), message);
        }
    }
    logger(path, component, errors);
}

/// Rule of the schema: true if it is met, its field, and the message if it is not.
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
        (max >= 0, "maxReplicas", "'MaxReplicas' cannot be less than 0"),
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

fn logger(path: &str, component: &Component, errors: &mut ErrorList) {
    let storage = component.logger.as_ref().and_then(|l| l.storage.as_ref());
    if let Some(storage) = storage.map(|storage| &storage.storage) {
        let all = storage.path.is_some() && storage.parameters.is_some() && storage.key.is_some();
        if !all {
            let message = "logger storage needs path, parameters and key";
            errors.add(format!("{path}.logger.storage"), message);
        }
    }
}

/// Returns the most requests in flight at one replica; None (0 or absent) means no limit.
pub(super) fn concurrency(component: &Component) -> Option<NonZeroU32> {
    let limit = component.container_concurrency?;
    NonZeroU32::new(u32::try_from(limit).ok()?)
}

/// Reads the bounds of a component. The component's fields win over annotations, and its annotations win over the
/// service's.
pub(super) fn scaling(context: &Context<'_>, path: &str, component: &Component, errors: &mut ErrorList) -> Scaling {
    let mut reader = reader(context, component);
    let written = component.auto_scaling.as_ref();
    let written = written.and_then(|scaling| scaling.behavior.as_ref());
    let scaling = Scaling {
        policy: ScalingPolicy { behavior: behavior::read(path, written, errors), ..policy(&mut reader, component) },
        by: scaled_by(&mut reader),
        initial: either(&mut reader, "initial-scale", "initialScale", 0).unwrap_or(0),
    };
    errors.list.append(&mut reader.errors);
    scaling
}

/// Returns the longest time of a batch in whole seconds: the component's, or else the service's.
pub(super) fn max_batch_time(context: &Context<'_>, component: &Component, errors: &mut ErrorList) -> Option<Duration> {
    let mut reader = reader(context, component);
    let expected = "a duration in whole seconds, such as 90s or 5m";
    let limit = reader.read(annotations::MAX_BATCH_TIME, expected, |text| {
        let limit = duration::parse(text)?;
        (limit.subsec_nanos() == 0 && !limit.is_zero()).then_some(limit)
    });
    // Every canary reads the service's annotation too; its error is reported once.
    let unread = reader.errors.into_iter();
    let new: Vec<_> = unread.filter(|error| !errors.list.contains(error)).collect();
    errors.list.extend(new);
    limit
}

/// Returns the digest of the model's file: the component's, or else the service's.
pub(super) fn storage_digest(context: &Context<'_>, component: &Component, errors: &mut ErrorList) -> Option<String> {
    let mut reader = reader(context, component);
    let expected = "sha256: and 64 hexadecimal digits";
    let digest = reader.read(annotations::STORAGE_DIGEST, expected, |text| {
        let digits = text.strip_prefix("sha256:")?;
        let is_valid = digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        is_valid.then(|| text.to_ascii_lowercase())
    });
    // Every canary reads the service's annotation too; its error is reported once.
    let unread = reader.errors.into_iter();
    let new: Vec<_> = unread.filter(|error| !errors.list.contains(error)).collect();
    errors.list.extend(new);
    digest
}

/// Returns a reader of a component's annotations, and then of the service's.
fn reader<'a>(context: &Context<'a>, component: &'a Component) -> Reader<'a> {
    Reader::new([
        ("spec.predictor.annotations", component.annotations.as_ref()),
        ("metadata.annotations", context.object.metadata.annotations.as_ref()),
    ])
}

/// Reads bounds and targets; unset ones keep their defaults.
fn policy(reader: &mut Reader<'_>, component: &Component) -> ScalingPolicy {
    let (min, max) = bounds(reader, component);
    let default = ScalingPolicy::default();
    let lasts = |name: &str, reader: &mut Reader<'_>| reader.duration(&knative(name));
    let percentile = "a percentile above 0 and at most 99.99";
    let quantile = reader.read(annotations::SLO_PERCENTILE, percentile, annotations::percentile);
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
        activation: activation.and_then(NonZeroU32::new).unwrap_or(default.activation),
        ..default
    }
}

/// Reads minimum and maximum. A field wins over an annotation, except a minimum of 1, which may be the default that an
/// API server filled in.
fn bounds(reader: &mut Reader<'_>, component: &Component) -> (u32, Option<u32>) {
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
    // A maximum below the minimum is raised to it, and zero means no maximum, as in KServe.
    let max = max.filter(|max| *max > 0).map(|max| max.max(min));
    (min, max.filter(|max| *max > 0))
}

fn queue_delay(reader: &mut Reader<'_>) -> Option<Duration> {
    let expected = "a duration above 0, such as 500ms";
    reader
        .read(annotations::QUEUE_DELAY_TARGET, expected, |text| duration::parse(text).filter(|delay| !delay.is_zero()))
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

/// Reads the averaging window, within Knative's limits.
fn window(reader: &mut Reader<'_>) -> Option<Duration> {
    let expected = "a duration from 6s to 1h";
    let fits = |window: &Duration| (6..=3600).contains(&window.as_secs());
    reader.read(&knative("window"), expected, |text| duration::parse(text).filter(fits))
}

fn target(reader: &mut Reader<'_>, component: &Component) -> Option<ScaleTarget> {
    let annotated = metric(reader);
    let own = component.scale_target.map(f64::from);
    let annotated_target = reader.positive(&knative("target"));
    let target = own.or(annotated_target);
    let used = utilization(reader);
    let target = target.map(|target| target * used.unwrap_or(100.0) / 100.0);
    // Knative's default metric is concurrency. A bare scaleTarget has no metric, and is listed as ignored.
    let default = annotated_target.map(|_| ScaleMetric::Concurrency);
    match component.scale_metric.or(annotated).or(default)? {
        ScaleMetric::Concurrency => target.map(ScaleTarget::Concurrency),
        ScaleMetric::Rps => target.map(ScaleTarget::Rps),
        // These metrics are listed as ignored.
        ScaleMetric::Cpu | ScaleMetric::Memory => None,
    }
}

/// Reads Knative's name of a metric.
fn metric(reader: &mut Reader<'_>) -> Option<ScaleMetric> {
    let expected = "a metric: concurrency, rps, cpu or memory";
    reader.read(&knative("metric"), expected, |text| match text {
        "concurrency" => Some(ScaleMetric::Concurrency),
        "rps" => Some(ScaleMetric::Rps),
        "cpu" => Some(ScaleMetric::Cpu),
        "memory" => Some(ScaleMetric::Memory),
        _ => None,
    })
}

/// Reads the percentage of the target at which replicas are added.
fn utilization(reader: &mut Reader<'_>) -> Option<f64> {
    let expected = "a percentage above 0 and at most 100";
    reader.read(&knative("target-utilization-percentage"), expected, |text| {
        let percent: f64 = text.parse().ok()?;
        (percent > 0.0 && percent <= 100.0).then_some(percent)
    })
}

fn scaled_by(reader: &mut Reader<'_>) -> ScaledBy {
    let expected = "a supported autoscaler class: hpa, keda, external or none";
    let class = reader.read(annotations::AUTOSCALER_CLASS, expected, |text| match text {
        "hpa" | "keda" => Some(ScaledBy::Weir),
        "none" => Some(ScaledBy::MinReplicas),
        "external" => Some(ScaledBy::Others),
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

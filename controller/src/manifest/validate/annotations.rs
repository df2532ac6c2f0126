//! Annotations that apply to the whole service.

use std::sync::Arc;
use std::time::Duration;

use weir_access::{Rule, ServiceRules};
use weir_cluster::{ControlRoutes, OpenAiApi, Tag};
use weir_crds::{InferenceService, quantity_value, read_document};

use super::error_list::ErrorList;
use crate::manifest::annotations::{self as names, Reader};
use crate::manifest::duration;
use crate::manifest::field_error::FieldError;
use crate::manifest::validate::AutoUpdate;
use crate::rollout::{Limits, Step, Strategy};

/// Values of a service's annotations.
pub(super) struct ServiceAnnotations {
    pub(super) is_stopped: bool,
    pub(super) strategy: Strategy,
    pub(super) auto_update: AutoUpdate,
    pub(super) activation_timeout: Option<Duration>,
    pub(super) max_queue: Option<u32>,
    pub(super) mirror: Option<(Tag, u8)>,
    pub(super) control: ControlRoutes,
    /// Rules for the clients of the service; empty without the annotation.
    pub(super) access: ServiceRules,
    /// Declared support of OpenAI's API; None without the annotation.
    pub(super) openai: Option<OpenAiApi>,
    pub(super) rollback_window: Option<Duration>,
}

/// Tag of the newest revision.
pub(crate) const LATEST: &str = "latest";

pub(super) fn read(object: &InferenceService, errors: &mut ErrorList) -> ServiceAnnotations {
    let layers = [("metadata.annotations", object.metadata.annotations.as_ref())];
    let mut reader = Reader::new(layers);
    let percent = object.spec.predictor.component.canary_traffic_percent;
    let percent = percent.and_then(|percent| u8::try_from(percent).ok());
    mode(&mut reader);
    reader.read(names::READ_ONLY, "`true` or `false`", names::truth);
    let expected = "a JSON list of names, such as [\"example.com/npu\"]";
    reader.read(names::GPU_RESOURCE_TYPES, expected, resource_types);
    for name in [names::INITIALIZER_CPU, names::INITIALIZER_MEMORY, names::INITIALIZER_DISK] {
        let is_positive = |text: &str| quantity_value(text).filter(|amount| *amount > 0.0).map(drop);
        reader.read(name, "a quantity above 0, such as 500m or 4Gi", is_positive);
    }
    let expected = "PERCENT or TAG=PERCENT, 1 to 100";
    let annotations = ServiceAnnotations {
        is_stopped: is_stopped(&mut reader),
        strategy: strategy(&mut reader, percent),
        auto_update: auto_update(&mut reader),
        activation_timeout: reader.duration(names::ACTIVATION_TIMEOUT),
        max_queue: reader.number(names::MAX_QUEUE, 1),
        mirror: reader.read(names::MIRROR, expected, mirror),
        control: reader.read(names::CONTROL_ROUTES, "true or false", control_routes).unwrap_or_default(),
        access: access_rules(&mut reader),
        openai: reader.read(names::OPENAI_API, "`true` or `false`", names::truth).map(openai_api),
        rollback_window: reader.duration(names::ROLLBACK_WINDOW),
    };
    errors.list.append(&mut reader.errors);
    annotations
}

/// Parses whether clients may use the servers' control routes.
pub(super) fn control_routes(text: &str) -> Option<ControlRoutes> {
    match text {
        "true" => Some(ControlRoutes::Open),
        "false" => Some(ControlRoutes::Closed),
        _ => None,
    }
}

/// Reads the rules for the service's clients, a YAML list. Each error is reported with its place in the text.
fn access_rules(reader: &mut Reader<'_>) -> ServiceRules {
    let Some((field, text)) = reader.text(names::ACCESS) else {
        return ServiceRules::default();
    };
    let rules = match read_document::<Vec<Rule>>("its text", text) {
        Ok(document) => ServiceRules::new(document.value).map_err(|(field, error)| vec![format!("{field}: {error}")]),
        Err(diagnostics) => Err(diagnostics.iter().map(ToString::to_string).collect()),
    };
    rules.unwrap_or_else(|errors| {
        reader.errors.extend(errors.into_iter().map(|error| FieldError::new(field.clone(), error)));
        ServiceRules::default()
    })
}

fn openai_api(is_supported: bool) -> OpenAiApi {
    if is_supported { OpenAiApi::Supported } else { OpenAiApi::Absent }
}

/// Checks the names of resources, which are later read from the pods.
fn resource_types(text: &str) -> Option<()> {
    let names: Vec<String> = serde_json::from_str(text).ok()?;
    names.iter().all(|name| !name.is_empty()).then_some(())
}

/// Checks the deployment mode. All modes are served alike; ModelMesh is refused as an unsupported field.
fn mode(reader: &mut Reader<'_>) {
    const MODES: [&str; 5] = ["Standard", "RawDeployment", "Knative", "Serverless", "ModelMesh"];
    let expected = "a deployment mode: Standard, RawDeployment, Knative or Serverless";
    reader.read(names::MODE, expected, |text| MODES.contains(&text).then_some(()));
}

/// Reads the rollout strategy. `canaryTrafficPercent` wins, and automatic steps continue when it is removed.
fn strategy(reader: &mut Reader<'_>, percent: Option<u8>) -> Strategy {
    let limits = limits(reader);
    let expected = "`manual` or `automatic`";
    let automatic = reader.read(names::ROLLOUT, expected, |text| match text {
        "manual" => Some(Strategy::Manual(None)),
        "automatic" => Some(Strategy::Automatic(Arc::new(limits))),
        _ => None,
    });
    match percent {
        Some(percent) => Strategy::Manual(Some(percent)),
        None => automatic.unwrap_or_default(),
    }
}

fn is_stopped(reader: &mut Reader<'_>) -> bool {
    let stop = reader.read(names::STOP, "`true` or `false`", names::truth);
    stop.unwrap_or(false)
}

fn auto_update(reader: &mut Reader<'_>) -> AutoUpdate {
    let read = reader.read(names::DISABLE_AUTO_UPDATE, "`true` or `false`", names::truth);
    if read.unwrap_or(false) { AutoUpdate::Disabled } else { AutoUpdate::Enabled }
}

fn limits(reader: &mut Reader<'_>) -> Limits {
    let default = Limits::default();
    let expected = "steps such as 5,20,50 or 5@1m,50@10m: percents from 1 to 100, growing";
    let steps = reader.read(names::ROLLOUT_STEPS, expected, steps);
    let rate = reader.read(names::ROLLOUT_MAX_ERROR_RATE, "a share such as 0.01 or 1%", names::share);
    let ratio = reader.positive(names::ROLLOUT_MAX_P99_RATIO);
    Limits {
        steps: steps.unwrap_or(default.steps),
        max_error_rate: rate.unwrap_or(default.max_error_rate),
        max_p99_ratio: ratio.unwrap_or(default.max_p99_ratio),
    }
}

fn steps(text: &str) -> Option<Vec<Step>> {
    let steps: Option<Vec<_>> = text.split(',').map(|one| step(one.trim())).collect();
    let grows = |steps: &Vec<Step>| steps.is_sorted_by(|a, b| a.percent < b.percent);
    steps.filter(grows)
}

fn step(text: &str) -> Option<Step> {
    let (percent, min_duration) = match text.split_once('@') {
        Some((percent, duration)) => (percent, duration::parse(duration)?),
        None => (text, Limits::STEP),
    };
    let percent = self::percent(percent)?;
    Some(Step { percent, min_duration })
}

fn mirror(text: &str) -> Option<(Tag, u8)> {
    let (tag, percent) = text.split_once('=').unwrap_or((LATEST, text));
    Some((Tag::new(tag.trim()).ok()?, self::percent(percent.trim())?))
}

fn percent(text: &str) -> Option<u8> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (1..=100).contains(&percent).then_some(percent)
}

//! What the annotations of the whole service say.

use std::sync::Arc;
use std::time::Duration;

use weir_cluster::Tag;
use weir_crds::InferenceService;

use super::{Found, Run};
use crate::annotations::{self, Reader};
use crate::duration;
use crate::rollout::{Limits, Step, Strategy};

pub(super) struct ServiceAnnotations {
    pub(super) run: Run,
    pub(super) strategy: Strategy,
    pub(super) activation_timeout: Option<Duration>,
    pub(super) max_queue: Option<u32>,
    pub(super) mirror: Option<(Tag, u8)>,
}

/// The tag that leads to the newest revision.
pub(crate) const LATEST: &str = "latest";

pub(super) fn read(object: &InferenceService, found: &mut Found) -> ServiceAnnotations {
    let layers = [("metadata.annotations", object.metadata.annotations.as_ref())];
    let mut reader = Reader::new(layers);
    let percent = object.spec.predictor.component.canary_traffic_percent;
    let percent = percent.and_then(|percent| u8::try_from(percent).ok());
    mode(&mut reader);
    let expected = "PERCENT or TAG=PERCENT, 1 to 100";
    let annotations = ServiceAnnotations {
        run: run(&mut reader),
        strategy: strategy(&mut reader, percent),
        activation_timeout: reader.duration(annotations::ACTIVATION_TIMEOUT),
        max_queue: reader.number(annotations::MAX_QUEUE, 1),
        mirror: reader.read(annotations::MIRROR, expected, mirror),
    };
    found.list.append(&mut reader.faults);
    annotations
}

/// All modes are one here, and ModelMesh is refused elsewhere; but a word that is none is a slip.
fn mode(reader: &mut Reader<'_>) {
    const MODES: [&str; 5] = [
        "Standard",
        "RawDeployment",
        "Knative",
        "Serverless",
        "ModelMesh",
    ];
    let expected = "a deployment mode: Standard, RawDeployment, Knative or Serverless";
    reader.read(annotations::MODE, expected, |text| {
        MODES.contains(&text).then_some(())
    });
}

/// A share that a person writes holds; the steps go on when it is taken away.
fn strategy(reader: &mut Reader<'_>, percent: Option<u8>) -> Strategy {
    let limits = limits(reader);
    let expected = "`manual` or `automatic`";
    let automatic = reader.read(annotations::ROLLOUT, expected, |text| match text {
        "manual" => Some(Strategy::Manual(None)),
        "automatic" => Some(Strategy::Automatic(Arc::new(limits))),
        _ => None,
    });
    match percent {
        Some(percent) => Strategy::Manual(Some(percent)),
        None => automatic.unwrap_or_default(),
    }
}

fn run(reader: &mut Reader<'_>) -> Run {
    let stop = reader.read(annotations::STOP, "`true` or `false`", |text| match text {
        "true" => Some(Run::Stopped),
        "false" => Some(Run::Serving),
        _ => None,
    });
    stop.unwrap_or(Run::Serving)
}

fn limits(reader: &mut Reader<'_>) -> Limits {
    let default = Limits::default();
    let expected = "steps such as 5,20,50 or 5@1m,50@10m: percents from 1 to 100, growing";
    let steps = reader.read(annotations::ROLLOUT_STEPS, expected, steps);
    let rate = reader.read(
        annotations::ROLLOUT_MAX_ERROR_RATE,
        "a share such as 0.01 or 1%",
        annotations::share,
    );
    let ratio = reader.positive(annotations::ROLLOUT_MAX_P99_RATIO);
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
    let (percent, lasts) = match text.split_once('@') {
        Some((percent, lasts)) => (percent, duration::parse(lasts)?),
        None => (text, Limits::STEP),
    };
    let percent = self::percent(percent)?;
    Some(Step { percent, lasts })
}

fn mirror(text: &str) -> Option<(Tag, u8)> {
    let (tag, percent) = text.split_once('=').unwrap_or((LATEST, text));
    Some((Tag::new(tag.trim()).ok()?, self::percent(percent.trim())?))
}

fn percent(text: &str) -> Option<u8> {
    let percent = text.strip_suffix('%').unwrap_or(text).parse().ok()?;
    (1..=100).contains(&percent).then_some(percent)
}

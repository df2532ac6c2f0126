//! The annotations that say something about scale: Knative's, which people already write, and ours.

use std::num::NonZeroU32;
use std::time::Duration;

use super::declared::{Kind, Target};
use super::{Economy, Policy};
use crate::PolicyError;

/// What an annotation does.
pub(super) enum Annotation {
    /// It sets a field of the policy.
    Sets(fn(&mut Policy, Reader<'_>) -> Result<(), PolicyError>),
    /// It says what a replica is counted on for.
    Aims(fn(&mut Target, Reader<'_>) -> Result<(), PolicyError>),
    /// It is accepted, because manifests carry it, and does nothing for this reason.
    WithoutEffect(&'static str),
}

/// What a number of replicas may be: [`Policy::MOST`] in words.
pub(super) const COUNT: &str = "a whole number from 0 to 10000";

/// Panic windows are one law's cure for its own slowness.
const NO_PANIC: &str = "arrivals of the last five seconds always count, so there is no panic mode";

/// Every annotation there is. `initial-scale` is read by who creates revisions.
pub(super) const KNOWN: &[(&str, Annotation)] = &[
    ("autoscaling.knative.dev/min-scale", Annotation::Sets(min)),
    ("autoscaling.knative.dev/minScale", Annotation::Sets(min)),
    ("autoscaling.knative.dev/max-scale", Annotation::Sets(max)),
    ("autoscaling.knative.dev/maxScale", Annotation::Sets(max)),
    (
        "autoscaling.knative.dev/activation-scale",
        Annotation::Sets(activation),
    ),
    (
        "autoscaling.knative.dev/scale-to-zero-pod-retention-period",
        Annotation::Sets(retention),
    ),
    (
        "autoscaling.knative.dev/scale-down-delay",
        Annotation::Sets(scale_down_delay),
    ),
    ("autoscaling.knative.dev/window", Annotation::Sets(window)),
    ("autoscaling.knative.dev/metric", Annotation::Aims(metric)),
    ("autoscaling.knative.dev/target", Annotation::Aims(target)),
    (
        "autoscaling.knative.dev/target-utilization-percentage",
        Annotation::Aims(utilization),
    ),
    ("weir.dev/queue-delay-target", Annotation::Sets(queue_delay)),
    ("weir.dev/slo-percentile", Annotation::Sets(share)),
    ("weir.dev/economy", Annotation::Sets(economy)),
    (
        "autoscaling.knative.dev/panic-window-percentage",
        Annotation::WithoutEffect(NO_PANIC),
    ),
    (
        "autoscaling.knative.dev/panic-threshold-percentage",
        Annotation::WithoutEffect(NO_PANIC),
    ),
    (
        "autoscaling.knative.dev/target-burst-capacity",
        Annotation::WithoutEffect("requests always pass the gateway, which holds the queue"),
    ),
    (
        "autoscaling.knative.dev/metric-aggregation-algorithm",
        Annotation::WithoutEffect("arrivals are counted, not averaged"),
    ),
    (
        "autoscaling.knative.dev/class",
        Annotation::WithoutEffect("there is one law"),
    ),
];

/// One annotation as given.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) name: &'static str,
    pub(super) value: &'a str,
}

impl Reader<'_> {
    fn count(self) -> Result<u32, PolicyError> {
        let count = self.value.trim().parse().ok();
        let count = count.filter(|count| *count <= Policy::MOST);
        count.ok_or_else(|| self.fault(COUNT))
    }

    /// A number above zero and at most `most`.
    fn number(self, most: f64, accepted: &'static str) -> Result<f64, PolicyError> {
        let number: Option<f64> = self.value.trim().parse().ok();
        let number = number.filter(|number| *number > 0.0 && *number <= most);
        number.ok_or_else(|| self.fault(accepted))
    }

    fn duration(self) -> Result<Duration, PolicyError> {
        let accepted = "a duration such as 500ms, 30s or 1m30s";
        read_duration(self.value.trim()).ok_or_else(|| self.fault(accepted))
    }

    fn fault(self, accepted: &'static str) -> PolicyError {
        PolicyError::new(self.name, self.value, accepted)
    }
}

fn min(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    policy.min = reader.count()?;
    Ok(())
}

fn max(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    policy.max = NonZeroU32::new(reader.count()?);
    Ok(())
}

fn activation(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    let count = NonZeroU32::new(reader.count()?);
    policy.activation = count.ok_or_else(|| reader.fault("1 or more"))?;
    Ok(())
}

fn retention(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    policy.retention = Some(reader.duration()?);
    Ok(())
}

fn scale_down_delay(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    policy.scale_down_delay = reader.duration()?;
    Ok(())
}

/// Knative's own limits.
fn window(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    let window = reader.duration()?;
    if !(Duration::from_secs(6)..=Duration::from_secs(3600)).contains(&window) {
        return Err(reader.fault("a duration from 6s to 1h"));
    }
    policy.window = window;
    Ok(())
}

fn queue_delay(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    let delay = reader.duration()?;
    if delay.is_zero() {
        return Err(reader.fault("a duration above zero, such as 500ms"));
    }
    policy.queue_delay = delay;
    Ok(())
}

fn share(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    let percentile = reader.number(99.99, "a percentile above 0 and at most 99.99")?;
    policy.share = percentile / 100.0;
    Ok(())
}

fn economy(policy: &mut Policy, reader: Reader<'_>) -> Result<(), PolicyError> {
    policy.economy = match reader.value {
        "economy" => Economy::Economy,
        "balanced" => Economy::Balanced,
        "latency" => Economy::Latency,
        _ => return Err(reader.fault("economy, balanced or latency")),
    };
    Ok(())
}

fn metric(target: &mut Target, reader: Reader<'_>) -> Result<(), PolicyError> {
    target.kind = Kind::read(reader.name, reader.value)?;
    Ok(())
}

fn target(target: &mut Target, reader: Reader<'_>) -> Result<(), PolicyError> {
    target.value = Some(reader.number(1e9, "a positive number")?);
    Ok(())
}

fn utilization(target: &mut Target, reader: Reader<'_>) -> Result<(), PolicyError> {
    let percentage = reader.number(100.0, "a percentage above 0 and at most 100")?;
    target.utilization = percentage / 100.0;
    Ok(())
}

/// A duration as Go writes it: numbers with units, one after the other; or 0.
fn read_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, after) = after.split_at(unit.unwrap_or(after.len()));
        total += number.parse::<f64>().ok()? * seconds(unit)?;
        rest = after;
    }
    let duration = Duration::try_from_secs_f64(total).ok();
    duration.filter(|_| !text.is_empty())
}

fn seconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        _ => return None,
    })
}

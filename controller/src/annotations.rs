//! What annotations say: Weir's own, and those of Knative and KServe that people already write.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use crate::duration;
use crate::validate::FieldError;

/// How long requests may wait.
pub(crate) const QUEUE_DELAY_TARGET: &str = "weir.dev/queue-delay-target";
/// For which percentile of the requests that should hold.
pub(crate) const SLO_PERCENTILE: &str = "weir.dev/slo-percentile";
/// `economy`, `balanced` or `latency`: how much idle time may be spent to avoid cold starts.
pub(crate) const ECONOMY: &str = "weir.dev/economy";
/// How long a request waits for a revision to come up from zero.
pub(crate) const ACTIVATION_TIMEOUT: &str = "weir.dev/activation-timeout";
/// Requests that wait for one revision at most.
pub(crate) const MAX_QUEUE: &str = "weir.dev/max-queue";
/// `manual` or `automatic`.
pub(crate) const ROLLOUT: &str = "weir.dev/rollout";
/// `5,20,50` or `5@2m,20@2m,50@10m`.
pub(crate) const ROLLOUT_STEPS: &str = "weir.dev/rollout-steps";
/// By how much a new revision's share of errors may exceed the stable one's: `0.01` or `1%`.
pub(crate) const ROLLOUT_MAX_ERROR_RATE: &str = "weir.dev/rollout-max-error-rate";
/// How many times the stable revision's p99 a new one's may be: `1.5`.
pub(crate) const ROLLOUT_MAX_P99_RATIO: &str = "weir.dev/rollout-max-p99-ratio";
/// `10` or `TAG=10`.
pub(crate) const MIRROR: &str = "weir.dev/mirror";

/// Who sets the number of replicas.
pub(crate) const AUTOSCALER_CLASS: &str = "serving.kserve.io/autoscalerClass";
/// `true`: the service is kept, and nothing of it runs.
pub(crate) const STOP: &str = "serving.kserve.io/stop";
/// Labels that keep a service from callers outside.
pub(crate) const VISIBILITY: [&str; 2] = [
    "networking.kserve.io/visibility",
    "networking.knative.dev/visibility",
];

/// Which of KServe's modes a service is written for.
pub(crate) const MODE: &str = "serving.kserve.io/deploymentMode";

/// Knative's prefix.
pub(crate) const KNATIVE: &str = "autoscaling.knative.dev/";

/// What of Knative's is read, behind the prefix: new spellings and old ones.
pub(crate) const KNATIVE_READ: [&str; 13] = [
    "min-scale",
    "minScale",
    "max-scale",
    "maxScale",
    "initial-scale",
    "initialScale",
    "activation-scale",
    "metric",
    "target",
    "target-utilization-percentage",
    "scale-to-zero-pod-retention-period",
    "scale-down-delay",
    "window",
];

/// KServe's annotations for an HPA, which there is none of.
pub(crate) const FOR_HPA: [&str; 2] = [
    "serving.kserve.io/metrics",
    "serving.kserve.io/targetUtilizationPercentage",
];

/// Ours that say something about replicas: a component may have its own.
pub(crate) const OF_COMPONENTS: [&str; 3] = [QUEUE_DELAY_TARGET, SLO_PERCENTILE, ECONOMY];

/// All of ours, so that one nobody knows is noticed.
pub(crate) const OURS: [&str; 10] = [
    QUEUE_DELAY_TARGET,
    SLO_PERCENTILE,
    ECONOMY,
    ACTIVATION_TIMEOUT,
    MAX_QUEUE,
    ROLLOUT,
    ROLLOUT_STEPS,
    ROLLOUT_MAX_ERROR_RATE,
    ROLLOUT_MAX_P99_RATIO,
    MIRROR,
];

/// What ours begin with.
pub(crate) const PREFIX: &str = "weir.dev/";

/// Annotations that are read one by one; what cannot be read becomes a fault.
pub(crate) struct Reader<'a> {
    /// Most telling first: the component's, then the service's.
    layers: Vec<(&'static str, &'a BTreeMap<String, String>)>,
    pub(crate) faults: Vec<FieldError>,
}

impl<'a> Reader<'a> {
    /// Over several maps with the paths of their fields; the first that has an annotation wins.
    pub(crate) fn new(
        layers: impl IntoIterator<Item = (&'static str, Option<&'a BTreeMap<String, String>>)>,
    ) -> Self {
        let layers = layers.into_iter();
        Self {
            layers: layers
                .filter_map(|(path, map)| Some((path, map?)))
                .collect(),
            faults: Vec::new(),
        }
    }

    /// The text of an annotation and the path of its field.
    pub(crate) fn text(&self, name: &str) -> Option<(String, &'a str)> {
        self.layers.iter().find_map(|(path, map)| {
            let value = map.get(name)?;
            Some((format!("{path}[{name}]"), value.trim()))
        })
    }

    /// What `read` makes of an annotation. If it makes nothing of it, that is a fault: `expected` says
    /// what it should have been.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        expected: impl Display,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (field, text) = self.text(name)?;
        let value = read(text);
        if value.is_none() {
            let because = format!("`{text}` is not {expected}");
            self.faults.push(FieldError::new(field, because));
        }
        value
    }

    /// A length of time.
    pub(crate) fn duration(&mut self, name: &str) -> Option<Duration> {
        self.read(
            name,
            "a length of time such as 500ms, 55s or 1m30s",
            duration::parse,
        )
    }

    /// A whole number, at least `least`.
    pub(crate) fn number(&mut self, name: &str, least: u32) -> Option<u32> {
        let expected = format!("a whole number from {least}");
        self.read(name, expected, |text| at_least(text, least))
    }

    /// A number above zero.
    pub(crate) fn positive(&mut self, name: &str) -> Option<f64> {
        self.read(name, "a number above 0", positive)
    }
}

/// A number within `least..`.
fn at_least<T: FromStr + PartialOrd>(text: &str, least: T) -> Option<T> {
    text.parse().ok().filter(|number| *number >= least)
}

/// A finite number above zero.
pub(crate) fn positive(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

/// A percentile above 0 and at most 99.99, as a share.
pub(crate) fn percentile(text: &str) -> Option<f64> {
    let number = positive(text).filter(|number| *number <= 99.99);
    number.map(|number| number / 100.0)
}

/// A share, `0.01` or `1%`, within 0..=1.
pub(crate) fn share(text: &str) -> Option<f64> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse::<f64>().ok()?,
    };
    (0.0..=1.0).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_annotation_of_ours() {
        let page = include_str!("../../docs/services.md");
        for name in OURS {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
        let rows = page.matches(&format!("\n| `{PREFIX}")).count();
        assert_eq!(rows, OURS.len());
    }
}

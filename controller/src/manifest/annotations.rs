//! Annotations that Weir reads: its own, and those of Knative and KServe that users already set.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use crate::manifest::duration;
use crate::manifest::field_error::FieldError;

/// Target for a request's time in the queue, a duration such as `200ms`.
pub(crate) const QUEUE_DELAY_TARGET: &str = "weir.dev/queue-delay-target";
/// Percentile of the requests that should meet the target, such as `95`.
pub(crate) const SLO_PERCENTILE: &str = "weir.dev/slo-percentile";
/// Preference between few idle replicas and few cold starts: `economy`, `balanced` or `latency`.
pub(crate) const ECONOMY: &str = "weir.dev/economy";
/// Longest time of a batch in `weir-runtime`, a duration. A longer batch counts as stuck, and the runtime is restarted.
pub(crate) const MAX_BATCH_TIME: &str = "weir.dev/max-batch-time";
/// Digest of the model's file or archive at an http(s) URI: `sha256:` and 64 hexadecimal digits.
pub(crate) const STORAGE_DIGEST: &str = "weir.dev/storage-digest";
/// Longest wait of a request for a revision to scale up from zero, a duration.
pub(crate) const ACTIVATION_TIMEOUT: &str = "weir.dev/activation-timeout";
/// Most requests queued for one revision.
pub(crate) const MAX_QUEUE: &str = "weir.dev/max-queue";
/// Rollout strategy: `manual` or `automatic`.
pub(crate) const ROLLOUT: &str = "weir.dev/rollout";
/// Steps of an automatic rollout in percent: `5,20,50` or `5@2m,20@2m,50@10m`.
pub(crate) const ROLLOUT_STEPS: &str = "weir.dev/rollout-steps";
/// Largest excess of a new revision's error rate over the stable one's: `0.01` or `1%`.
pub(crate) const ROLLOUT_MAX_ERROR_RATE: &str = "weir.dev/rollout-max-error-rate";
/// Largest ratio of a new revision's p99 latency to the stable one's, such as `1.5`.
pub(crate) const ROLLOUT_MAX_P99_RATIO: &str = "weir.dev/rollout-max-p99-ratio";
/// Time for which a replaced revision keeps its replicas, a duration; `0s` for scarce GPUs.
pub(crate) const ROLLBACK_WINDOW: &str = "weir.dev/rollback-window";
/// Share of requests mirrored in percent, and the tag that receives them: `10` or `TAG=10`.
pub(crate) const MIRROR: &str = "weir.dev/mirror";
/// `true` exposes the servers' control routes, such as model loading, to clients.
pub(crate) const CONTROL_ROUTES: &str = "weir.dev/control-routes";
/// Rules by which clients may use the service, a YAML list. Gateways without access control ignore them.
pub(crate) const ACCESS: &str = "weir.dev/access";
/// `true` or `false`: the servers support OpenAI's API, so the service is in the list of models at the shared address.
pub(crate) const OPENAI_API: &str = "weir.dev/openai-api";

/// KServe's autoscaler class. With `hpa` or `keda` Weir's own autoscaler scales; with `none` another one sets
/// `minReplicas`, with `external` the replicas of the Deployments.
pub(crate) const AUTOSCALER_CLASS: &str = "serving.kserve.io/autoscalerClass";
/// `true` stops the service and keeps its objects.
pub(crate) const STOP: &str = "serving.kserve.io/stop";
/// `false` lets a server write to its model's files.
pub(crate) const READ_ONLY: &str = "storage.kserve.io/readonly";
/// `true` keeps the running pods as they are when their runtime changes.
pub(crate) const DISABLE_AUTO_UPDATE: &str = "serving.kserve.io/disable-auto-update";
/// Labels that make a service cluster-local.
pub(crate) const VISIBILITY: [&str; 2] = ["networking.kserve.io/visibility", "networking.knative.dev/visibility"];

/// KServe's deployment mode of the service.
pub(crate) const MODE: &str = "serving.kserve.io/deploymentMode";

/// Names of further resources that count as GPUs, a JSON list.
pub(crate) const GPU_RESOURCE_TYPES: &str = "serving.kserve.io/gpu-resource-types";

/// Secret with the credentials for models, in place of those of the ServiceAccount and of `storage-config`.
pub(crate) const STORAGE_SECRET: &str = "serving.kserve.io/storageSecretName";

/// KServe's annotations about S3, which a service may set as well as its ServiceAccount.
pub(crate) const S3: [&str; 8] = [
    "serving.kserve.io/s3-endpoint",
    "serving.kserve.io/s3-usehttps",
    "serving.kserve.io/s3-region",
    "serving.kserve.io/s3-verifyssl",
    "serving.kserve.io/s3-usevirtualbucket",
    "serving.kserve.io/s3-useanoncredential",
    "serving.kserve.io/s3-cabundle",
    "serving.kserve.io/s3-cabundle-configmap",
];

/// CPU limit of the init container that fetches a model, a quantity.
pub(crate) const INITIALIZER_CPU: &str = "weir.dev/storage-initializer-cpu";
/// Memory limit of the init container that fetches a model, a quantity.
pub(crate) const INITIALIZER_MEMORY: &str = "weir.dev/storage-initializer-memory";
/// Disk that the init container that fetches a model requests, a quantity.
pub(crate) const INITIALIZER_DISK: &str = "weir.dev/storage-initializer-ephemeral-storage";
/// Image of the init container that fetches a model.
pub(crate) const INITIALIZER_IMAGE: &str = "weir.dev/storage-initializer-image";

/// Annotations of a service that affect its pods and are copied to them.
pub(crate) const SHAPING_OF_PODS: [&str; 15] = joined(&[
    &[READ_ONLY, GPU_RESOURCE_TYPES, STORAGE_SECRET],
    &S3,
    &[INITIALIZER_CPU, INITIALIZER_MEMORY, INITIALIZER_DISK, INITIALIZER_IMAGE],
]);

/// Annotation of KServe's pods whose model is in a store that `model.storage` names.
pub(crate) const STORAGE_SPEC: &str = "internal.serving.kserve.io/storage-spec";
/// Annotation of KServe's pods with the key of `model.storage`.
pub(crate) const STORAGE_SPEC_KEY: &str = "internal.serving.kserve.io/storage-spec-key";
/// Annotation of KServe's pods with the parameters of `model.storage`, as JSON.
pub(crate) const STORAGE_SPEC_PARAMETERS: &str = "internal.serving.kserve.io/storage-spec-param";
/// Annotation of pods with the `storageContainerName` of their predictor.
pub(crate) const STORAGE_CONTAINER: &str = "internal.serving.kserve.io/storage-container-name";

/// Prefix of KServe's annotations.
pub(crate) const KSERVE: &str = "serving.kserve.io/";

/// KServe's annotations of services that Weir reads.
pub(crate) const KSERVE_READ: [&str; 14] =
    joined(&[&[AUTOSCALER_CLASS, STOP, DISABLE_AUTO_UPDATE, MODE, GPU_RESOURCE_TYPES, STORAGE_SECRET], &S3]);

/// Joins lists that have `N` names together.
const fn joined<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let mut all = [""; N];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            all[at] = lists[list][index];
            at += 1;
            index += 1;
        }
        list += 1;
    }
    assert!(at == N, "the lists have another number of names");
    all
}

/// Prefix of Knative's autoscaling annotations.
pub(crate) const KNATIVE: &str = "autoscaling.knative.dev/";

/// Knative's annotations that Weir reads, without the prefix, in old and new spellings.
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

/// Knative's annotations that tune its own autoscaler, without the prefix. Weir ignores them.
pub(crate) const KNATIVE_UNREAD: [&str; 7] = [
    "class",
    "panic-window-percentage",
    "panicWindowPercentage",
    "panic-threshold-percentage",
    "panicThresholdPercentage",
    "target-burst-capacity",
    "targetBurstCapacity",
];

/// KServe's annotations for a HorizontalPodAutoscaler, which Weir ignores.
pub(crate) const HPA_ANNOTATIONS: [&str; 2] =
    ["serving.kserve.io/metrics", "serving.kserve.io/targetUtilizationPercentage"];

/// Weir's annotations about replicas, which a component may set too.
pub(crate) const OF_COMPONENTS: [&str; 5] =
    [QUEUE_DELAY_TARGET, SLO_PERCENTILE, ECONOMY, MAX_BATCH_TIME, STORAGE_DIGEST];

/// All annotations of Weir; any other with its prefix is an error.
pub(crate) const WEIR_ANNOTATIONS: [&str; 20] = [
    QUEUE_DELAY_TARGET,
    SLO_PERCENTILE,
    ECONOMY,
    MAX_BATCH_TIME,
    STORAGE_DIGEST,
    ACTIVATION_TIMEOUT,
    MAX_QUEUE,
    ROLLOUT,
    ROLLOUT_STEPS,
    ROLLOUT_MAX_ERROR_RATE,
    ROLLOUT_MAX_P99_RATIO,
    ROLLBACK_WINDOW,
    MIRROR,
    CONTROL_ROUTES,
    ACCESS,
    OPENAI_API,
    INITIALIZER_CPU,
    INITIALIZER_MEMORY,
    INITIALIZER_DISK,
    INITIALIZER_IMAGE,
];

/// Prefix of Weir's annotations.
pub(crate) const PREFIX: &str = "weir.dev/";

/// Reader of annotations. Values that do not parse become errors.
pub(crate) struct Reader<'a> {
    /// Maps in order of precedence: the component's, then the service's.
    layers: Vec<(&'static str, &'a BTreeMap<String, String>)>,
    pub(crate) errors: Vec<FieldError>,
}

impl<'a> Reader<'a> {
    /// Returns a reader of several maps with the paths of their fields. The first map that has an annotation wins.
    pub(crate) fn new(layers: impl IntoIterator<Item = (&'static str, Option<&'a BTreeMap<String, String>>)>) -> Self {
        let layers = layers.into_iter();
        Self { layers: layers.filter_map(|(path, map)| Some((path, map?))).collect(), errors: Vec::new() }
    }

    /// Returns the path of an annotation's field, and its text.
    pub(crate) fn text(&self, name: &str) -> Option<(String, &'a str)> {
        self.layers.iter().find_map(|(path, map)| {
            let value = map.get(name)?;
            Some((format!("{path}[{name}]"), value.trim()))
        })
    }

    /// Parses an annotation with `read`. If that returns None, an error says that the text is not what was `expected`.
    pub(crate) fn read<T>(
        &mut self,
        name: &str,
        expected: impl Display,
        read: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        let (field, text) = self.text(name)?;
        let value = read(text);
        if value.is_none() {
            let message = format!("`{text}` is not {expected}");
            self.errors.push(FieldError::new(field, message));
        }
        value
    }

    /// Parses an annotation as a duration in Go's notation.
    pub(crate) fn duration(&mut self, name: &str) -> Option<Duration> {
        self.read(name, "a duration such as 500ms, 55s or 1m30s", duration::parse)
    }

    /// Parses an annotation as a whole number of at least `least`.
    pub(crate) fn number(&mut self, name: &str, least: u32) -> Option<u32> {
        let expected = format!("a whole number from {least}");
        self.read(name, expected, |text| at_least(text, least))
    }

    /// Parses an annotation as a number above zero.
    pub(crate) fn positive(&mut self, name: &str) -> Option<f64> {
        self.read(name, "a number above 0", positive)
    }
}

/// Parses a number of at least `least`.
fn at_least<T: FromStr + PartialOrd>(text: &str, least: T) -> Option<T> {
    text.parse().ok().filter(|number| *number >= least)
}

/// Parses a finite number above zero.
pub(crate) fn positive(text: &str) -> Option<f64> {
    let number: f64 = text.parse().ok()?;
    (number.is_finite() && number > 0.0).then_some(number)
}

/// Parses a percentile above 0 and at most 99.99; returns it as a share of 1.
pub(crate) fn percentile(text: &str) -> Option<f64> {
    let number = positive(text).filter(|number| *number <= 99.99);
    number.map(|number| number / 100.0)
}

/// Parses `true` or `false`; the case does not matter, as in KServe.
pub(crate) fn truth(text: &str) -> Option<bool> {
    let is = |word| text.eq_ignore_ascii_case(word);
    (is("true") || is("false")).then(|| is("true"))
}

/// Parses a share such as `0.01` or `1%`, within 0..=1.
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
    fn the_page_documents_every_annotation() {
        let page = include_str!("../../../docs/services.md");
        for name in WEIR_ANNOTATIONS {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
        let rows = page.matches(&format!("\n| `{PREFIX}")).count();
        assert_eq!(rows, WEIR_ANNOTATIONS.len());
        for name in KNATIVE_READ {
            assert!(page.contains(&format!("`{name}`")), "{name}");
        }
    }

    #[test]
    fn the_page_says_which_annotations_a_predictor_may_have() {
        let page = include_str!("../../../docs/services.md");
        let rows = page.lines().filter(|line| line.starts_with("| `weir.dev/"));
        let first: Vec<_> = rows.take(OF_COMPONENTS.len()).filter_map(|row| row.split('`').nth(1)).collect();
        assert_eq!(first, OF_COMPONENTS);
        assert!(page.contains("The first five may also be set in `spec.predictor.annotations`"));
    }
}

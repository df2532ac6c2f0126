//! Labels and annotations of the InferenceService, which its pods get too, by KServe's precedence: the component's before
//! the service's, and those before the runtime's.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::device::MORE_KINDS;

/// Prefixes of annotations that are told to Weir, KServe, Knative or kubectl, and not to pods.
const NOT_COPIED: [&str; 4] = ["autoscaling.knative.dev/", "kubectl.kubernetes.io/", "serving.kserve.io/", "weir.dev/"];

/// Adds the service's labels and annotations, unless the pod has others.
pub(super) fn add(metadata: &mut ObjectMeta, service: &ObjectMeta) {
    let labels = metadata.labels.get_or_insert_default();
    put(labels, service.labels.iter().flatten());
    let copied = service.annotations.iter().flatten().filter(|(name, _)| {
        let mut prefixes = NOT_COPIED.iter();
        // What a pod's GPUs are is read from the pod.
        **name == *MORE_KINDS || !prefixes.any(|prefix| name.starts_with(prefix))
    });
    let annotations = metadata.annotations.get_or_insert_default();
    put(annotations, copied);
    if annotations.is_empty() {
        metadata.annotations = None;
    }
}

fn put<'a>(map: &mut BTreeMap<String, String>, more: impl Iterator<Item = (&'a String, &'a String)>) {
    for (name, value) in more {
        map.entry(name.clone()).or_insert_with(|| value.clone());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_told_to_pods_is_copied_and_theirs_stays() {
        let service: ObjectMeta = serde_json::from_value(json!({
            "labels": {"team": "a", "tier": "gold"},
            "annotations": {
                "sidecar.istio.io/inject": "false", "weir.dev/max-queue": "9", "serving.kserve.io/stop": "false",
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
                "serving.kserve.io/gpu-resource-types": "[]",
            },
        }))
        .unwrap();
        let mut pod: ObjectMeta = serde_json::from_value(json!({"labels": {"tier": "lead"}})).unwrap();
        add(&mut pod, &service);
        let expected = json!({
            "labels": {"team": "a", "tier": "lead"},
            "annotations": {
                "serving.kserve.io/gpu-resource-types": "[]", "sidecar.istio.io/inject": "false",
            },
        });
        assert_eq!(serde_json::to_value(pod).unwrap(), expected);
    }

    #[test]
    fn nothing_makes_no_empty_map() {
        let mut pod = ObjectMeta::default();
        add(&mut pod, &ObjectMeta::default());
        assert_eq!(pod.annotations, None);
    }
}

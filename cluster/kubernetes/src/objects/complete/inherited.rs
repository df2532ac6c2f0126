//! Labels and annotations that pods inherit from the InferenceService, with KServe's precedence: the component's win
//! over the service's, and the service's win over the runtime's.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::device::MORE_KINDS;

/// Prefixes of annotations that address Weir, KServe, Knative or kubectl, so pods do not get them.
const NOT_COPIED: [&str; 4] = ["autoscaling.knative.dev/", "kubectl.kubernetes.io/", "serving.kserve.io/", "weir.dev/"];

/// Adds the service's labels and annotations that the pod does not set itself.
pub(super) fn add(metadata: &mut ObjectMeta, service: &ObjectMeta) {
    let labels = metadata.labels.get_or_insert_default();
    put(labels, service.labels.iter().flatten());
    let copied = service.annotations.iter().flatten().filter(|(name, _)| {
        let mut prefixes = NOT_COPIED.iter();
        // The GPU resource types are read from the pod's annotations.
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
    fn annotations_for_pods_are_copied_and_the_pods_own_are_kept() {
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
    fn without_annotations_no_empty_map_is_added() {
        let mut pod = ObjectMeta::default();
        add(&mut pod, &ObjectMeta::default());
        assert_eq!(pod.annotations, None);
    }
}

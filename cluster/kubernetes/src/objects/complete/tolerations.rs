//! Tolerations of the taints that keep other pods off nodes with GPUs.

use k8s_openapi::api::core::v1::{PodSpec, Toleration};

use super::device::Gpus;

const NO_SCHEDULE: &str = "NoSchedule";

/// Adds tolerations for the taints of GPU nodes to a pod that requests GPUs.
pub(super) fn add(pod: &mut PodSpec, gpus: &Gpus) {
    for key in gpus.taints(pod) {
        let tolerations = pod.tolerations.get_or_insert_default();
        if !tolerations.iter().any(|one| is_about(one, &key)) {
            tolerations.push(Toleration {
                key: Some(key),
                operator: Some("Exists".to_owned()),
                effect: Some(NO_SCHEDULE.to_owned()),
                ..Toleration::default()
            });
        }
    }
}

/// Returns true if the pod already has a toleration for this key.
fn is_about(toleration: &Toleration, key: &str) -> bool {
    let effect = toleration.effect.as_deref();
    let is_of_key = toleration.key.as_deref().is_none_or(|k| k.is_empty() || k == key);
    is_of_key && effect.is_none_or(|effect| effect.is_empty() || effect == NO_SCHEDULE)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn tolerations(limits: &serde_json::Value, own: &serde_json::Value) -> serde_json::Value {
        let mut pod: PodSpec = serde_json::from_value(json!({
            "containers": [{ "name": "a", "resources": { "limits": limits } }],
            "tolerations": own,
        }))
        .unwrap();
        add(&mut pod, &Gpus::of(&BTreeMap::new()));
        json!(pod.tolerations)
    }

    #[test]
    fn only_pods_with_gpus_tolerate_gpu_nodes() {
        let gpu = json!({ "nvidia.com/gpu": "1" });
        let tolerated = json!([{ "key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule" }]);
        assert_eq!(tolerations(&gpu, &json!(null)), tolerated);
        assert_eq!(tolerations(&json!({ "cpu": "1" }), &json!(null)), json!(null));
    }

    #[test]
    fn the_pods_own_tolerations_are_kept() {
        let gpu = json!({ "nvidia.com/gpu": "1" });
        for own in [
            json!([{ "operator": "Exists" }]),
            json!([{ "key": "nvidia.com/gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule" }]),
        ] {
            assert_eq!(tolerations(&gpu, &own), own);
        }
        let other = json!([{ "key": "team", "operator": "Exists" }]);
        assert_eq!(tolerations(&gpu, &other).as_array().unwrap().len(), 2);
    }
}

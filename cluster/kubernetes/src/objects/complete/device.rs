//! Extended resources that containers request: GPUs of all vendors, and other devices.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodTemplateSpec, ResourceRequirements};
use kube::ResourceExt;

use super::all_containers;
use crate::entry::containers;

/// KServe's annotation that names more GPU resources, as a JSON list.
pub(super) const MORE_KINDS: &str = "serving.kserve.io/gpu-resource-types";

/// Names, or prefixes of names, of the resources that are GPUs or similar accelerators.
const KINDS: [&str; 9] = [
    "nvidia.com/gpu",
    "nvidia.com/mig-",
    "amd.com/gpu",
    "gpu.intel.com/",
    "intel.com/gpu",
    "habana.ai/gaudi",
    "google.com/tpu",
    "aws.amazon.com/neuron",
    "huawei.com/Ascend",
];

/// Key of the taint on NVIDIA GPU nodes. It is the same if a pod requests only a part of a GPU (MIG).
const NVIDIA: &str = "nvidia.com/gpu";

/// Names of resources that count as GPUs for a pod.
pub(super) struct Gpus {
    more: Vec<String>,
}

impl Gpus {
    /// Reads the resource names that a pod's annotations add to the known ones.
    pub(super) fn of(annotations: &BTreeMap<String, String>) -> Self {
        let list = annotations.get(MORE_KINDS);
        let more = list.and_then(|list| serde_json::from_str(list).ok());
        Self { more: more.unwrap_or_default() }
    }

    /// Returns true if a container gets a GPU. A resource claim counts as one, because the claim does not name its
    /// device.
    pub(super) fn are_in(&self, container: &Container) -> bool {
        let is_claimed = container
            .resources
            .as_ref()
            .and_then(|resources| resources.claims.as_ref())
            .is_some_and(|claims| !claims.is_empty());
        is_claimed || self.names(container).next().is_some()
    }

    /// Returns the keys of the taints on nodes with the GPUs that the pod requests.
    pub(super) fn taints(&self, pod: &PodSpec) -> Vec<String> {
        let named = pod
            .containers
            .iter()
            .flat_map(|c| self.names(c))
            .map(|name| if name.starts_with("nvidia.com/") { NVIDIA } else { name });
        let has_claims = pod.resource_claims.as_ref().is_some_and(|c| !c.is_empty());
        let claimed = has_claims.then_some(NVIDIA);
        let mut keys: Vec<_> = named.chain(claimed).map(str::to_owned).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// Returns the count of each GPU resource that a container gets.
    fn counts(&self, container: &Container) -> impl Iterator<Item = u32> {
        let resources = container.resources.as_ref();
        let limits = resources.and_then(|resources| resources.limits.as_ref());
        let limits = limits.into_iter().flatten();
        let gpus = limits.filter(|(name, _)| self.is_gpu(name));
        gpus.filter_map(|(_, count)| count.0.parse().ok())
    }

    fn names<'a>(&'a self, container: &'a Container) -> impl Iterator<Item = &'a str> {
        let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
        let asked = limits.into_iter().flatten().filter(|(_, n)| n.0 != "0");
        let names = asked.map(|(name, _)| name.as_str());
        names.filter(|name| self.is_gpu(name))
    }

    fn is_gpu(&self, name: &str) -> bool {
        KINDS.iter().any(|kind| name.starts_with(kind)) || self.more.iter().any(|kind| kind == name)
    }
}

/// Returns the number of GPUs that a pod gets. A part of a GPU counts as one, and so does a resource claim.
pub(crate) fn gpus(template: &PodTemplateSpec) -> u32 {
    let none = BTreeMap::new();
    let annotations = template.metadata.as_ref().and_then(|m| m.annotations.as_ref());
    let kinds = Gpus::of(annotations.unwrap_or(&none));
    let Some(pod) = &template.spec else {
        return 0;
    };
    let asked = pod.containers.iter().flat_map(|c| kinds.counts(c));
    let claims = pod.resource_claims.as_ref().map_or(0, Vec::len);
    let claims = u32::try_from(claims).unwrap_or(u32::MAX);
    asked.fold(claims, u32::saturating_add)
}

/// Returns true if a pod gets a GPU.
pub(crate) fn has_gpu(pod: &Pod) -> bool {
    let gpus = Gpus::of(pod.annotations());
    containers(pod).any(|container| gpus.are_in(container))
}

/// Copies limits of devices to requests and vice versa where one is unset: the API server requires them to be equal.
pub(super) fn limit(pod: &mut PodSpec) {
    for container in all_containers(pod) {
        if let Some(resources) = &mut container.resources {
            level(resources);
        }
    }
}

fn level(resources: &mut ResourceRequirements) {
    let devices = |from: &Option<BTreeMap<String, _>>| -> Vec<_> {
        let all = from.iter().flatten();
        let devices = all.filter(|(name, _)| is_extended(name));
        devices.map(|(n, v)| (n.clone(), Clone::clone(v))).collect()
    };
    let (requested, limited) = (devices(&resources.requests), devices(&resources.limits));
    for (name, value) in requested {
        let limits = resources.limits.get_or_insert_default();
        limits.entry(name).or_insert(value);
    }
    for (name, value) in limited {
        let requests = resources.requests.get_or_insert_default();
        requests.entry(name).or_insert(value);
    }
}

/// Returns true for an extended resource: one with a domain other than kubernetes.io.
fn is_extended(name: &str) -> bool {
    let domain = name.split_once('/').map(|(domain, _)| domain);
    domain.is_some_and(|domain| domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(resources: &serde_json::Value) -> PodSpec {
        let mut pod: PodSpec =
            serde_json::from_value(json!({ "containers": [{ "name": "a", "resources": resources }] })).unwrap();
        limit(&mut pod);
        pod
    }

    #[test]
    fn gpus_of_all_containers_and_claims_count() {
        let limits = |limits: serde_json::Value| json!({ "name": "a", "resources": { "limits": limits } });
        let template = |annotations: serde_json::Value| {
            serde_json::from_value(json!({
                "metadata": { "annotations": annotations },
                "spec": {
                    "containers": [
                        limits(json!({ "nvidia.com/gpu": "2", "cpu": "8" })),
                        limits(json!({ "nvidia.com/mig-1g.10gb": "1", "example.com/accelerator": "4" })),
                    ],
                    "resourceClaims": [{ "name": "one" }],
                },
            }))
            .unwrap()
        };
        assert_eq!(gpus(&template(json!({}))), 4);
        let more = json!({ MORE_KINDS: "[\"example.com/accelerator\"]" });
        assert_eq!(gpus(&template(more)), 8);
        assert_eq!(gpus(&PodTemplateSpec::default()), 0);
    }

    fn none() -> Gpus {
        Gpus::of(&BTreeMap::new())
    }

    #[test]
    fn limits_and_requests_of_devices_are_equal() {
        for name in [
            "nvidia.com/gpu",
            "nvidia.com/mig-1g.10gb",
            "amd.com/gpu",
            "gpu.intel.com/i915",
            "habana.ai/gaudi",
            "example.com/fpga",
        ] {
            for (written, other) in [("requests", "limits"), ("limits", "requests")] {
                let pod = pod(&json!({ written: { name: "2", "cpu": "1" } }));
                let resources = serde_json::to_value(&pod.containers[0].resources).unwrap();
                assert_eq!(resources[other], json!({ name: "2" }), "{name} {written}");
            }
        }
    }

    #[test]
    fn kubernetes_own_resources_are_no_devices() {
        for name in ["cpu", "memory", "hugepages-2Mi", "ephemeral-storage", "kubernetes.io/x"] {
            let pod = pod(&json!({ "limits": { name: "1" } }));
            assert_eq!(pod.containers[0].resources.as_ref().unwrap().requests, None);
        }
    }

    #[test]
    fn a_mig_slice_tolerates_the_taint_of_whole_gpus() {
        let asks = pod(&json!({ "limits": { "nvidia.com/mig-3g.40gb": "1" } }));
        assert_eq!(none().taints(&asks), ["nvidia.com/gpu"]);
        let asks = pod(&json!({ "limits": { "amd.com/gpu": "1" } }));
        assert_eq!(none().taints(&asks), ["amd.com/gpu"]);
        for not_asked in [
            json!({ "limits": { "nvidia.com/gpu": "0" } }),
            json!({ "limits": { "example.com/fpga": "1" } }),
            json!({}),
        ] {
            assert_eq!(none().taints(&pod(&not_asked)), [""; 0]);
            assert!(!none().are_in(&pod(&not_asked).containers[0]));
        }
    }

    #[test]
    fn an_annotation_adds_gpu_resources() {
        let asks = pod(&json!({ "limits": { "example.com/npu": "1" } }));
        let list = r#"["example.com/npu"]"#.to_owned();
        let gpus = Gpus::of(&[(MORE_KINDS.to_owned(), list)].into());
        assert_eq!(gpus.taints(&asks), ["example.com/npu"]);
        assert!(gpus.are_in(&asks.containers[0]));
    }

    #[test]
    fn a_claim_counts_as_a_gpu() {
        let mut claiming = pod(&json!({ "claims": [{ "name": "gpu" }] }));
        claiming.resource_claims = Some(vec![Default::default()]);
        assert!(none().are_in(&claiming.containers[0]));
        assert_eq!(none().taints(&claiming), ["nvidia.com/gpu"]);
    }
}

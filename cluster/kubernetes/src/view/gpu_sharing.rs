//! GPUs that pods share, as the labels of NVIDIA's GPU feature discovery show it on their nodes. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use weir_cluster::{GpuSharing, SharedGpu};

use crate::entry::containers;

/// Label of nodes with GPUs of NVIDIA: the number of pods among which each GPU is divided.
pub(crate) const REPLICAS: &str = "nvidia.com/gpu.replicas";

/// Suffix of a resource's name that makes the label with the way in which the resource is shared.
const STRATEGY: &str = ".sharing-strategy";

/// Suffix of a resource's name that makes the label with the number of pods.
const PODS: &str = ".replicas";

/// Suffix that NVIDIA's device plugin gives to the name of a shared resource if it is configured so.
const SHARED: &str = ".shared";

/// Prefixes of the names of NVIDIA's resources: whole GPUs, and parts of them.
const RESOURCES: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/mig-"];

/// The GPUs that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuUse {
    pub(crate) node: Arc<str>,
    /// Names of the resources.
    resources: BTreeSet<String>,
}

/// A node's labels about shared GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GpuNode {
    pub(crate) name: String,
    labels: BTreeMap<String, String>,
}

impl GpuUse {
    /// Returns the GPUs of a pod; `None` if the pod has none, or no node yet.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let node = pod.spec.as_ref()?.node_name.as_deref()?;
        let limits = containers(pod).filter_map(|container| container.resources.as_ref()?.limits.as_ref());
        let named = limits.flatten().filter(|(_, amount)| amount.0 != "0").map(|(name, _)| name);
        let resources = named.filter(|name| RESOURCES.iter().any(|prefix| name.starts_with(prefix)));
        let resources: BTreeSet<_> = resources.cloned().collect();
        (!resources.is_empty()).then(|| Self { node: node.into(), resources })
    }

    /// Returns how the pod's GPUs are shared. `labels` are those of the pod's node, if they are known.
    pub(crate) fn shared(&self, labels: Option<&GpuNode>) -> Option<SharedGpu> {
        self.resources.iter().find_map(|resource| self.shared_resource(resource, labels))
    }

    fn shared_resource(&self, resource: &str, labels: Option<&GpuNode>) -> Option<SharedGpu> {
        let base = resource.strip_suffix(SHARED);
        let of_node = labels.and_then(|node| node.sharing(base.unwrap_or(resource)));
        let (sharing, pods) = of_node.or(base.map(|_| (GpuSharing::Unknown, None)))?;
        Some(SharedGpu { node: self.node.clone(), sharing, pods })
    }
}

impl GpuNode {
    /// Reads the labels of a node; `None` if its GPUs are not shared.
    pub(crate) fn of(node: &impl ResourceExt) -> Option<Self> {
        let labels = node.labels().iter().filter(|(label, _)| is_about_sharing(label));
        let labels: BTreeMap<_, _> = labels.map(|(label, value)| (label.clone(), value.clone())).collect();
        let node = Self { name: node.name_any(), labels };
        let mut resources = node.labels.keys().filter_map(|label| label.strip_suffix(STRATEGY));
        resources.any(|resource| node.sharing(resource).is_some()).then(|| node.clone())
    }

    /// Returns how a resource is shared, and among how many pods; `None` if it is not shared.
    fn sharing(&self, resource: &str) -> Option<(GpuSharing, Option<u32>)> {
        let sharing = match self.labels.get(&format!("{resource}{STRATEGY}"))?.as_str() {
            "time-slicing" => GpuSharing::TimeSlicing,
            "mps" => GpuSharing::Mps,
            _ => return None,
        };
        let pods = self.labels.get(&format!("{resource}{PODS}")).and_then(|pods| pods.parse().ok());
        (pods != Some(1)).then_some((sharing, pods))
    }
}

fn is_about_sharing(label: &str) -> bool {
    let resource = label.strip_suffix(STRATEGY).or(label.strip_suffix(PODS));
    resource.is_some_and(|resource| RESOURCES.iter().any(|prefix| resource.starts_with(prefix)))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;
    use serde_json::json;

    use super::*;

    fn node(labels: &serde_json::Value) -> Option<GpuNode> {
        let node: Node = serde_json::from_value(json!({ "metadata": { "name": "a", "labels": labels } })).unwrap();
        GpuNode::of(&node)
    }

    fn uses(resource: &str) -> GpuUse {
        let limits = json!({ "limits": { resource: "1", "cpu": "1" } });
        let pod = json!({ "spec": { "nodeName": "a", "containers": [{ "name": "a", "resources": limits }] } });
        GpuUse::of(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    fn shared(resource: &str, labels: &serde_json::Value) -> Option<(GpuSharing, Option<u32>)> {
        let shared = uses(resource).shared(node(labels).as_ref());
        shared.map(|shared| (shared.sharing, shared.pods))
    }

    #[test]
    fn labels_of_the_node_show_how_its_gpus_are_shared() {
        let sliced = json!({ "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4" });
        assert_eq!(shared("nvidia.com/gpu", &sliced), Some((GpuSharing::TimeSlicing, Some(4))));
        assert_eq!(shared("nvidia.com/gpu.shared", &sliced), Some((GpuSharing::TimeSlicing, Some(4))));
        assert_eq!(shared("nvidia.com/mig-1g.10gb", &sliced), None);
        let mps = json!({ "nvidia.com/gpu.sharing-strategy": "mps" });
        assert_eq!(shared("nvidia.com/gpu", &mps), Some((GpuSharing::Mps, None)));
        let mig = json!({
            "nvidia.com/gpu.sharing-strategy": "none",
            "nvidia.com/mig-1g.10gb.sharing-strategy": "time-slicing",
            "nvidia.com/mig-1g.10gb.replicas": "2",
        });
        assert_eq!(shared("nvidia.com/mig-1g.10gb", &mig), Some((GpuSharing::TimeSlicing, Some(2))));
        assert_eq!(shared("nvidia.com/gpu", &mig), None);
    }

    #[test]
    fn a_whole_gpu_is_not_shared() {
        for labels in [
            json!({}),
            json!({ "nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1" }),
            json!({ "nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "1" }),
            json!({ "nvidia.com/gpu.replicas": "4" }),
        ] {
            assert_eq!(node(&labels), None, "{labels}");
            assert_eq!(shared("nvidia.com/gpu", &labels), None);
        }
    }

    #[test]
    fn the_name_of_a_shared_resource_shows_it_without_labels() {
        assert_eq!(shared("nvidia.com/gpu.shared", &json!({})), Some((GpuSharing::Unknown, None)));
        assert_eq!(shared("nvidia.com/mig-1g.10gb.shared", &json!({})), Some((GpuSharing::Unknown, None)));
    }

    #[test]
    fn pods_without_a_gpu_or_a_node_use_none() {
        for pod in [
            json!({ "spec": { "nodeName": "a", "containers": [{ "name": "a" }] } }),
            json!({ "spec": { "containers": [{ "name": "a", "resources": { "limits": { "nvidia.com/gpu": "1" } } }] } }),
        ] {
            assert_eq!(GpuUse::of(&serde_json::from_value(pod).unwrap()), None);
        }
    }
}

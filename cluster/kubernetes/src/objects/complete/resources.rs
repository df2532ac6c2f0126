//! Requests of CPU and memory: a quota refuses pods without, and the scheduler packs them anywhere.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use weir_cluster::Workload;

/// What the serving container asks for unless it says so: enough for a small model on a CPU. KServe's 1 CPU and 2 GiB
/// are limits too, which would slow or kill what needs more, and leave small nodes empty.
const SERVING: [(&str, &str); 2] = [("cpu", "250m"), ("memory", "512Mi")];

/// What every other container asks for unless it says so.
const OTHER: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "32Mi")];

/// Writes the requests that containers do not. A pod that shares resources among its containers says enough.
pub(super) fn request(pod: &mut PodSpec) {
    if pod.resources.is_some() {
        return;
    }
    let serving = pod.containers.iter().position(|container| container.name == Workload::CONTAINER).unwrap_or(0);
    for container in pod.init_containers.iter_mut().flatten() {
        default(container, OTHER);
    }
    for (i, container) in pod.containers.iter_mut().enumerate() {
        default(container, if i == serving { SERVING } else { OTHER });
    }
}

/// Requests what is limited, else the default, of each resource that the container does not request.
fn default(container: &mut Container, defaults: [(&str, &str); 2]) {
    let resources = container.resources.get_or_insert_default();
    let limits = resources.limits.clone().unwrap_or_default();
    let requests: &mut BTreeMap<_, _> = resources.requests.get_or_insert_default();
    for (name, default) in defaults {
        let limit = limits.get(name).cloned();
        requests.entry(name.to_owned()).or_insert_with(|| limit.unwrap_or_else(|| Quantity(default.to_owned())));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn requests(containers: &Value) -> Vec<Value> {
        let mut pod: PodSpec = serde_json::from_value(json!({ "containers": containers })).unwrap();
        request(&mut pod);
        let each = pod.containers.iter();
        each.map(|c| json!(c.resources.as_ref().unwrap().requests)).collect()
    }

    #[test]
    fn every_container_requests_cpu_and_memory() {
        assert_eq!(
            requests(&json!([{ "name": "proxy" }, { "name": "kserve-container" }])),
            [json!({ "cpu": "10m", "memory": "32Mi" }), json!({ "cpu": "250m", "memory": "512Mi" })]
        );
    }

    #[test]
    fn what_is_limited_is_requested_and_what_is_requested_stays() {
        let written = json!([{ "name": "a", "resources": {
            "requests": { "memory": "4Gi" }, "limits": { "cpu": "2", "memory": "8Gi" }
        } }]);
        assert_eq!(requests(&written), [json!({ "cpu": "2", "memory": "4Gi" })]);
    }

    #[test]
    fn resources_of_the_whole_pod_are_enough() {
        let mut pod: PodSpec = serde_json::from_value(json!({
            "containers": [{ "name": "a" }], "resources": { "requests": { "cpu": "1" } },
        }))
        .unwrap();
        request(&mut pod);
        assert_eq!(pod.containers[0].resources, None);
    }
}

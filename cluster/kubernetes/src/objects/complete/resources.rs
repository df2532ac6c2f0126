//! Default requests of CPU and memory. A quota refuses pods without requests, and the scheduler would overload nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use weir_cluster::Workload;

/// Default requests of the serving container: enough for a small model on a CPU. KServe's default of 1 CPU and 2 GiB is
/// a limit too, which would throttle or kill larger models, and it leaves small nodes unused.
const SERVING: [(&str, &str); 2] = [("cpu", "250m"), ("memory", "512Mi")];

/// Default requests of every other container.
const OTHER: [(&str, &str); 2] = [("cpu", "10m"), ("memory", "32Mi")];

/// Sets the requests that containers leave unset. Pod-level resources are sufficient, and such a pod is left alone.
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

/// Sets each missing request to the container's limit, or else to the default.
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
    fn a_limit_is_the_default_request_and_own_requests_are_kept() {
        let written = json!([{ "name": "a", "resources": {
            "requests": { "memory": "4Gi" }, "limits": { "cpu": "2", "memory": "8Gi" }
        } }]);
        assert_eq!(requests(&written), [json!({ "cpu": "2", "memory": "4Gi" })]);
    }

    #[test]
    fn pod_level_resources_are_sufficient() {
        let mut pod: PodSpec = serde_json::from_value(json!({
            "containers": [{ "name": "a" }], "resources": { "requests": { "cpu": "1" } },
        }))
        .unwrap();
        request(&mut pod);
        assert_eq!(pod.containers[0].resources, None);
    }
}

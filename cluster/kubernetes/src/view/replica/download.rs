//! Address at which a pod reports the download of its model.

use std::net::{IpAddr, SocketAddr};

use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};

use super::failure::STORAGE_INITIALIZER;
use crate::objects::{PROGRESS_PORT, PROGRESS_VARIABLE};

/// Returns the address at which the running init container of Weir reports its download; `None` if none runs. The port
/// is fixed, and a pod in its node's network is left out, so that no pod chooses where the controller connects to.
pub(crate) fn progress_address(pod: &Pod) -> Option<SocketAddr> {
    let (spec, status) = (pod.spec.as_ref()?, pod.status.as_ref()?);
    if pod.metadata.deletion_timestamp.is_some() || spec.host_network == Some(true) {
        return None;
    }
    let mut statuses = status.init_container_statuses.iter().flatten();
    let running = statuses.find(|status| status.name.starts_with(STORAGE_INITIALIZER) && is_running(status))?;
    let mut containers = spec.init_containers.iter().flatten();
    let container = containers.find(|container| container.name == running.name)?;
    let address: IpAddr = status.pod_ip.as_ref()?.parse().ok()?;
    serves_progress(container).then(|| SocketAddr::new(address, PROGRESS_PORT))
}

fn is_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn serves_progress(container: &Container) -> bool {
    let mut variables = container.env.iter().flatten();
    variables.any(|variable| variable.name == PROGRESS_VARIABLE)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod() -> Value {
        json!({
            "metadata": { "name": "a" },
            "spec": {
                "containers": [{ "name": "kserve-container" }],
                "initContainers": [{ "name": "storage-initializer", "env": [{ "name": "WEIR_PROGRESS_PORT", "value": "9095" }] }],
            },
            "status": {
                "podIP": "10.0.0.7",
                "initContainerStatuses": [{
                    "name": "storage-initializer", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": { "running": {} },
                }],
            },
        })
    }

    fn address(pod: Value) -> Option<String> {
        progress_address(&serde_json::from_value(pod).unwrap()).map(|address| address.to_string())
    }

    #[test]
    fn a_pod_reports_its_download_while_it_fetches() {
        assert_eq!(address(pod()).as_deref(), Some("10.0.0.7:9095"));
        for (path, value) in [
            ("/status/initContainerStatuses/0/state", json!({ "terminated": { "exitCode": 0 } })),
            ("/status/initContainerStatuses/0/name", json!("other")),
            ("/status/podIP", json!("x")),
            ("/spec/initContainers/0/env", json!([])),
            ("/spec/initContainers/0/name", json!("other")),
        ] {
            let mut other = pod();
            *other.pointer_mut(path).unwrap() = value;
            assert_eq!(address(other), None, "{path}");
        }
    }

    #[test]
    fn a_pod_that_ends_or_is_in_its_nodes_network_reports_nothing() {
        let mut on_node = pod();
        on_node["spec"]["hostNetwork"] = json!(true);
        assert_eq!(address(on_node), None);
        let mut ending = pod();
        ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(address(ending), None);
    }
}

//! TLS of the port on which a pod receives requests.

use k8s_openapi::api::core::v1::{Container, ContainerPort, HTTPGetAction, PodTemplateSpec, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::ContainerPorts;

use super::weir_runtime;
use crate::entry::entry;

/// Flag of Weir's runtime with the file of its certificate.
const CERTIFICATE: &str = "--tls-cert";

/// Path of the V2 call by which the process is found alive.
const V2_LIVE: &str = "/v2/health/live";

/// Returns true if a pod receives requests by TLS, from clients with a certificate.
pub(crate) fn is_served(pod: &PodTemplateSpec) -> bool {
    pod.spec.as_ref().and_then(entry).is_some_and(is_served_by)
}

/// Returns true if a container serves TLS. Other servers than Weir's runtime serve plainly, as far as the platform can tell.
pub(super) fn is_served_by(container: &Container) -> bool {
    let words = container.command.iter().chain(&container.args).flatten();
    let mut flags = words.map(|word| word.split_once('=').map_or(&**word, |(flag, _)| flag));
    weir_runtime::is_ours(container) && flags.any(|flag| flag == CERTIFICATE)
}

/// Moves the probes of the ports for requests to the port of the metrics, which stays plain: a kubelet has no certificate.
pub(super) fn probe_beside(container: &mut Container, ports: ContainerPorts) {
    let metrics = weir_runtime::metrics_port(container);
    let named = container.ports.clone().unwrap_or_default();
    let probes = [&mut container.readiness_probe, &mut container.liveness_probe, &mut container.startup_probe];
    for probe in probes.into_iter().flatten() {
        if let Some(path) = path_beside(probe, ports, &named) {
            let call = HTTPGetAction {
                path: Some(path.to_owned()),
                port: IntOrString::Int(metrics.into()),
                ..HTTPGetAction::default()
            };
            (probe.http_get, probe.grpc) = (Some(call), None);
        }
    }
}

/// Returns the path at the port of the metrics that says the same as a probe; `None` for a probe of another port, or one that
/// only opens a connection.
fn path_beside(probe: &Probe, ports: ContainerPorts, named: &[ContainerPort]) -> Option<&'static str> {
    let is_for_requests =
        |number: i32| [ports.http, ports.grpc].into_iter().flatten().any(|port| i32::from(port) == number);
    if let Some(call) = &probe.grpc {
        return is_for_requests(call.port).then_some("/ready");
    }
    let call = probe.http_get.as_ref()?;
    let number = match &call.port {
        IntOrString::Int(number) => *number,
        IntOrString::String(name) => {
            let port = named.iter().find(|port| port.name.as_ref() == Some(name));
            port.map_or(0, |port| port.container_port)
        }
    };
    let path = if call.path.as_deref() == Some(V2_LIVE) { "/health" } else { "/ready" };
    is_for_requests(number).then_some(path)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn serves(containers: &Value) -> bool {
        let template = json!({ "spec": { "containers": containers } });
        is_served(&serde_json::from_value(template).unwrap())
    }

    #[test]
    fn the_runtime_serves_tls_with_a_certificate() {
        let runtime = |args: &[&str]| json!({ "name": "kserve-container", "image": "weir-runtime:1", "args": args });
        assert!(serves(&json!([runtime(&["--tls-cert=/tls/tls.crt", "--tls-key=/tls/tls.key"])])));
        assert!(serves(&json!([runtime(&["--tls-cert", "/tls/tls.crt"])])));
        assert!(!serves(&json!([runtime(&["--id=--tls-cert"])])));
        assert!(!serves(&json!([{ "name": "a", "image": "example/server", "args": ["--tls-cert=/tls/tls.crt"] }])));
        // The transformer receives the requests.
        let transformer = json!({ "name": "transformer-container", "image": "example/transformer" });
        assert!(!serves(&json!([runtime(&["--tls-cert=/tls/tls.crt"]), transformer])));
    }
}

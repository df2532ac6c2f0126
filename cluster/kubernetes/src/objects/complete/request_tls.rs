//! TLS of the port on which a pod receives requests.

use k8s_openapi::api::core::v1::{
    Container, ContainerPort, EnvVar, HTTPGetAction, PodSpec, PodTemplateSpec, Probe, ProjectedVolumeSource,
    ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::{ContainerPorts, Transport};

use super::weir_runtime;
use crate::CertificateSource;
use crate::entry::entry;

/// Flag of Weir's runtime with the file of its certificate.
const CERTIFICATE: &str = "--tls-cert";

/// Variables of Weir's runtime: the URL at which it gets certificates, and the authority that it trusts.
const URL: &str = "WEIR_CERTIFICATE_URL";
const AUTHORITY: &str = "WEIR_CERTIFICATE_CA";

/// Audience of the token. The API server and other services do not accept it.
const AUDIENCE: &str = "weir-certificates";

/// Volume with the token, which no other container of the pod mounts.
const VOLUME: &str = "weir-certificates-token";

/// Directory of the token in the container. `weir-runtime` reads `token` there by default.
const DIRECTORY: &str = "/var/run/weir/certificates";

/// Lifetime of the token in seconds, the shortest that Kubernetes accepts. The kubelet renews the token while the pod
/// exists.
const TOKEN_LIFETIME: i64 = 600;

/// Path of the V2 liveness call.
const V2_LIVE: &str = "/v2/health/live";

/// Returns the protocol by which a pod receives requests.
pub(crate) fn transport(pod: &PodTemplateSpec) -> Transport {
    let is_encrypted = pod.spec.as_ref().and_then(entry).is_some_and(is_served_by);
    if is_encrypted { Transport::Tls } else { Transport::Plain }
}

/// Returns true if a container serves TLS. Servers other than Weir's runtime are assumed to serve without TLS.
pub(super) fn is_served_by(container: &Container) -> bool {
    let words = container.command.iter().chain(&container.args).flatten();
    let mut flags = words.map(|word| word.split_once('=').map_or(&**word, |(flag, _)| flag));
    let mut variables = container.env.iter().flatten();
    weir_runtime::is_ours(container)
        && (flags.any(|flag| flag == CERTIFICATE) || variables.any(|variable| variable.name == URL))
}

/// Makes the container that receives the requests get certificates from this source, if it runs Weir's runtime and has
/// no certificate of its own.
pub(super) fn provide(pod: &mut PodSpec, source: Option<&CertificateSource>) {
    let Some(source) = source else {
        return;
    };
    let plain = entry(pod).filter(|container| weir_runtime::is_ours(container) && !is_served_by(container));
    let Some(name) = plain.map(|container| container.name.clone()) else {
        return;
    };
    for container in pod.containers.iter_mut().filter(|container| container.name == name) {
        let variables = [(URL, &source.url), (AUTHORITY, &source.authority)];
        let variables = variables.map(|(name, value)| EnvVar {
            name: name.to_owned(),
            value: Some(value.clone()),
            ..EnvVar::default()
        });
        container.env.get_or_insert_default().extend(variables);
        container.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: DIRECTORY.to_owned(),
            read_only: Some(true),
            ..VolumeMount::default()
        });
    }
    pod.volumes.get_or_insert_default().push(token());
}

fn token() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(AUDIENCE.to_owned()),
        expiration_seconds: Some(TOKEN_LIFETIME),
        path: "token".to_owned(),
    };
    let source = VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() };
    let projected = ProjectedVolumeSource { sources: Some(vec![source]), ..ProjectedVolumeSource::default() };
    Volume { name: VOLUME.to_owned(), projected: Some(projected), ..Volume::default() }
}

/// Moves probes from the ports for requests to the port of the metrics, which serves without TLS, because the kubelet
/// has no client certificate.
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

/// Returns the path at the port of the metrics that is equivalent to a probe; `None` for a probe of another port, or
/// one that only opens a connection.
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
        transport(&serde_json::from_value(template).unwrap()) == Transport::Tls
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

    fn provided(containers: &Value) -> Value {
        let mut pod: PodSpec = serde_json::from_value(json!({ "containers": containers })).unwrap();
        let source = CertificateSource { url: "https://weir/v1".to_owned(), authority: "PEM".to_owned() };
        provide(&mut pod, None);
        assert!(pod.volumes.is_none());
        provide(&mut pod, Some(&source));
        json!(pod)
    }

    #[test]
    fn the_runtime_that_receives_the_requests_gets_certificates_by_a_token_of_its_own() {
        let pod = provided(&json!([{ "name": "kserve-container", "image": "weir-runtime:1" }, { "name": "sidecar" }]));
        let variables = [("WEIR_CERTIFICATE_URL", "https://weir/v1"), ("WEIR_CERTIFICATE_CA", "PEM")];
        assert_eq!(
            pod["containers"][0]["env"],
            json!(variables.map(|(name, value)| json!({ "name": name, "value": value })))
        );
        assert_eq!(
            pod["containers"][0]["volumeMounts"],
            json!([{ "name": VOLUME, "mountPath": "/var/run/weir/certificates", "readOnly": true }])
        );
        let token = json!({ "audience": "weir-certificates", "expirationSeconds": 600, "path": "token" });
        assert_eq!(
            pod["volumes"],
            json!([{ "name": VOLUME, "projected": { "sources": [{ "serviceAccountToken": token }] } }])
        );
        assert!(serves(&pod["containers"]));
        assert_eq!(pod["containers"][1], json!({ "name": "sidecar" }));
    }

    #[test]
    fn other_servers_and_a_runtime_behind_a_transformer_stay_plain() {
        let runtime = |args: &[&str]| json!({ "name": "kserve-container", "image": "weir-runtime:1", "args": args });
        for containers in [
            json!([{ "name": "kserve-container", "image": "example/server" }]),
            json!([runtime(&[]), { "name": "transformer-container", "image": "example/transformer" }]),
            json!([runtime(&["--tls-cert=/tls/tls.crt"])]),
        ] {
            assert_eq!(provided(&containers), json!({ "containers": containers }));
        }
    }
}

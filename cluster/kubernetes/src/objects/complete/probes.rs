//! Probes of the servers: readiness, and time to load the model before a liveness probe counts.

use k8s_openapi::api::core::v1::{Container, HTTPGetAction, PodSpec, Probe, TCPSocketAction};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use weir_cluster::{ContainerPorts, ReadyCall, Workload, image_name};

use super::{request_tls, weir_runtime};
use crate::entry::TRANSFORMER;

/// Path of the V2 ready call.
const V2_READY: &str = "/v2/health/ready";

/// Seconds between two probes, so readiness is noticed at most this late.
const PERIOD: i32 = 2;

/// Timeout of a probe in seconds: longer than the period, because a busy server is not a broken one.
const TIMEOUT: i32 = 5;

/// Consecutive failed probes after which a server is not ready any more.
const FAILURES: i32 = 3;

/// Failed probes allowed while a server starts: one hour, for large models on slow disks.
const STARTUP_FAILURES: i32 = 3600 / PERIOD;

/// Last path component of image names whose servers implement the V2 ready call.
const V2_SERVERS: [&str; 11] = [
    "tritonserver",
    "mlserver",
    "model_server",
    "sklearnserver",
    "xgbserver",
    "lgbserver",
    "paddleserver",
    "pmmlserver",
    "predictiveserver",
    "autogluonserver",
    "huggingfaceserver",
];

/// Completes the probes of a pod's containers, and adds missing ones to those that serve. `declared` is the ready call
/// that the serving runtime declares.
pub(super) fn complete(pod: &mut PodSpec, declared: Option<ReadyCall>) {
    let names = [Workload::CONTAINER, TRANSFORMER];
    let is_named = |container: &Container| names.contains(&&*container.name);
    // Without a container of such a name, the first one serves.
    let serves_first = !pod.containers.iter().any(is_named);
    for (i, container) in pod.containers.iter_mut().enumerate() {
        let ports = ContainerPorts::of(container);
        if is_named(container) || (i == 0 && serves_first) {
            serve(container, ports, declared);
        }
        let probes = [&mut container.readiness_probe, &mut container.liveness_probe, &mut container.startup_probe];
        for probe in probes.into_iter().flatten() {
            aim(probe, ports);
        }
        if request_tls::is_served_by(container) {
            request_tls::probe_beside(container, ports);
        }
    }
}

fn serve(container: &mut Container, ports: ContainerPorts, declared: Option<ReadyCall>) {
    if container.readiness_probe.is_none() {
        container.readiness_probe = readiness(ports, ready_call(container, declared));
    }
    if container.startup_probe.is_none() {
        container.startup_probe = container.liveness_probe.as_ref().map(startup);
    }
}

/// Returns a probe by the V2 ready call if the server has it, else one that checks that the port is open.
fn readiness(ports: ContainerPorts, call: ReadyCall) -> Option<Probe> {
    let mut probe = Probe {
        period_seconds: Some(PERIOD),
        timeout_seconds: Some(TIMEOUT),
        failure_threshold: Some(FAILURES),
        ..Probe::default()
    };
    match (ports.http, call) {
        (Some(port), ReadyCall::V2) => {
            probe.http_get = Some(HTTPGetAction {
                path: Some(V2_READY.to_owned()),
                port: IntOrString::Int(port.into()),
                ..HTTPGetAction::default()
            });
        }
        (http, ReadyCall::V2 | ReadyCall::Platform) => {
            probe.tcp_socket =
                Some(TCPSocketAction { port: IntOrString::Int(http.or(ports.grpc)?.into()), host: None });
        }
    }
    Some(probe)
}

/// Returns a startup probe made from the liveness probe, with time to load the model.
fn startup(liveness: &Probe) -> Probe {
    Probe {
        initial_delay_seconds: None,
        period_seconds: Some(PERIOD),
        failure_threshold: Some(STARTUP_FAILURES),
        success_threshold: None,
        ..liveness.clone()
    }
}

/// Returns the declared ready call of the server. For a transformer or without a declaration, the image decides.
fn ready_call(container: &Container, declared: Option<ReadyCall>) -> ReadyCall {
    match declared.filter(|_| container.name != TRANSFORMER) {
        Some(declared) => declared,
        None if has_v2(container) => ReadyCall::V2,
        None => ReadyCall::Platform,
    }
}

fn has_v2(container: &Container) -> bool {
    let image = container.image.as_deref().map(image_name);
    let program = container.command.iter().flatten().next();
    let program = program.and_then(|path| path.rsplit('/').next());
    let is_known = |name: Option<&str>| name.is_some_and(|name| V2_SERVERS.contains(&name));
    weir_runtime::is_ours(container) || is_known(image) || is_known(program)
}

/// Sets a probe's missing port to the serving port.
fn aim(probe: &mut Probe, ports: ContainerPorts) {
    let Some(serving) = ports.http.or(ports.grpc) else {
        return;
    };
    if let Some(call) = &mut probe.http_get {
        aim_at(&mut call.port, serving);
    }
    if let Some(connection) = &mut probe.tcp_socket {
        aim_at(&mut connection.port, serving);
    }
    if let Some(call) = probe.grpc.as_mut().filter(|call| call.port == 0) {
        call.port = ports.grpc.unwrap_or(serving).into();
    }
}

fn aim_at(port: &mut IntOrString, serving: u16) {
    let is_unset = match port {
        IntOrString::Int(number) => *number == 0,
        IntOrString::String(name) => name.is_empty(),
    };
    if is_unset {
        *port = IntOrString::Int(serving.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn completed(container: &Value) -> Container {
        let pod = json!({ "containers": [container] });
        let mut pod: PodSpec = serde_json::from_value(pod).unwrap();
        complete(&mut pod, None);
        pod.containers.remove(0)
    }

    fn readiness_of(container: &Value) -> Value {
        json!(completed(container).readiness_probe)
    }

    #[test]
    fn servers_with_v2_are_probed_by_the_ready_call() {
        for (container, port) in [
            (json!({ "name": "a", "image": "weir-runtime:1" }), 8080),
            (
                json!({
                    "name": "a", "image": "nvcr.io/nvidia/tritonserver:23.05-py3",
                    "args": ["tritonserver", "--http-port=8090"],
                }),
                8090,
            ),
            (
                json!({
                    "name": "a", "image": "docker.io/seldonio/mlserver:1.5.0",
                    "ports": [{ "containerPort": 8081 }],
                }),
                8081,
            ),
        ] {
            let get = &readiness_of(&container)["httpGet"];
            assert_eq!(get, &json!({ "path": "/v2/health/ready", "port": port }));
        }
    }

    #[test]
    fn a_runtime_with_tls_is_probed_at_its_plain_port() {
        let args = ["--tls-cert=/tls/tls.crt", "--http-port=8080", "--metrics-port=9002"];
        let ports = json!([{ "name": "http1", "containerPort": 8080 }, { "name": "h2c", "containerPort": 9000 }]);
        let probes = |own: &Value| {
            let mut container = json!({ "name": "a", "image": "weir-runtime:1", "args": args, "ports": ports });
            container.as_object_mut().unwrap().extend(own.as_object().unwrap().clone());
            let probed = completed(&container);
            [json!(probed.readiness_probe), json!(probed.liveness_probe)]
        };
        let at = |path: &str| json!({ "path": path, "port": 9002 });
        assert_eq!(probes(&json!({}))[0]["httpGet"], at("/ready"));
        let ready = json!({ "httpGet": { "path": "/v2/health/ready", "port": "http1" }, "periodSeconds": 1 });
        let live = json!({ "httpGet": { "path": "/v2/health/live", "port": 8080 } });
        let [readiness, liveness] = probes(&json!({ "readinessProbe": ready, "livenessProbe": live }));
        assert_eq!((&readiness["httpGet"], &readiness["periodSeconds"]), (&at("/ready"), &json!(1)));
        assert_eq!(liveness["httpGet"], at("/health"));
        let [readiness, _] = probes(&json!({ "readinessProbe": { "grpc": { "port": 9000 } } }));
        assert_eq!((&readiness["httpGet"], &readiness["grpc"]), (&at("/ready"), &Value::Null));
        let own = json!({ "httpGet": { "path": "/metrics", "port": 9002 } });
        assert_eq!(probes(&json!({ "readinessProbe": own }))[0], own);
        let sibling = json!({ "name": "a", "image": "example/server", "args": args });
        assert_eq!(readiness_of(&sibling)["tcpSocket"], json!({ "port": 8080 }));
    }

    #[test]
    fn other_servers_are_ready_once_they_listen() {
        let other = json!({ "name": "a", "image": "example/server" });
        assert_eq!(readiness_of(&other)["tcpSocket"], json!({ "port": 8080 }));
        let grpc = json!({ "name": "a", "ports": [{ "name": "grpc", "containerPort": 9000 }] });
        assert_eq!(readiness_of(&grpc)["tcpSocket"], json!({ "port": 9000 }));
    }

    #[test]
    fn the_declared_ready_call_wins_over_the_image() {
        let probed = |image: &str, declared| {
            let containers = json!([{ "name": "kserve-container", "image": image }, { "name": TRANSFORMER }]);
            let mut pod: PodSpec = serde_json::from_value(json!({ "containers": containers })).unwrap();
            complete(&mut pod, declared);
            let is_v2 = |container: &Container| {
                let probe = container.readiness_probe.as_ref().unwrap();
                probe.http_get.is_some()
            };
            [is_v2(&pod.containers[0]), is_v2(&pod.containers[1])]
        };
        assert_eq!(probed("mine", Some(ReadyCall::V2)), [true, false]);
        assert_eq!(probed("tritonserver", Some(ReadyCall::Platform)), [false, false]);
        assert_eq!(probed("tritonserver", None), [true, false]);
        assert_eq!(probed("mine", None), [false, false]);
    }

    #[test]
    fn a_probe_without_a_port_gets_the_serving_port() {
        let container = json!({
            "name": "a", "ports": [{ "containerPort": 8085 }, { "name": "h2c", "containerPort": 9001 }],
            "readinessProbe": { "httpGet": { "path": "/healthz" } },
            "livenessProbe": { "tcpSocket": {} },
            "startupProbe": { "grpc": {} },
        });
        let container = completed(&container);
        assert_eq!(json!(container.readiness_probe)["httpGet"]["port"], 8085);
        assert_eq!(json!(container.liveness_probe)["tcpSocket"]["port"], 8085);
        assert_eq!(json!(container.startup_probe)["grpc"]["port"], 9001);
    }

    #[test]
    fn a_complete_probe_is_kept() {
        let probe = json!({ "httpGet": { "path": "/x", "port": "http" }, "periodSeconds": 7 });
        let container = json!({ "name": "a", "image": "weir-runtime", "readinessProbe": probe });
        assert_eq!(readiness_of(&container), probe);
        let exec = json!({ "exec": { "command": ["true"] } });
        let container = json!({ "name": "a", "readinessProbe": exec });
        assert_eq!(readiness_of(&container), exec);
    }

    #[test]
    fn a_liveness_probe_gets_a_startup_probe_of_one_hour() {
        let liveness = json!({ "httpGet": { "path": "/live", "port": 8080 }, "periodSeconds": 10 });
        let container = completed(&json!({ "name": "a", "livenessProbe": liveness }));
        let startup = container.startup_probe.unwrap();
        let seconds = startup.period_seconds.unwrap() * startup.failure_threshold.unwrap();
        assert_eq!(seconds, 3600);
        assert_eq!(json!(startup)["httpGet"], liveness["httpGet"]);
        assert_eq!(completed(&json!({ "name": "a" })).startup_probe, None);
    }

    #[test]
    fn a_sidecar_is_not_probed() {
        let is_probed = |names: &[&str]| {
            let containers: Vec<_> = names.iter().map(|name| json!({ "name": name })).collect();
            let mut pod: PodSpec = serde_json::from_value(json!({ "containers": containers })).unwrap();
            complete(&mut pod, None);
            let each = pod.containers.iter();
            each.map(|c| c.readiness_probe.is_some()).collect::<Vec<_>>()
        };
        let named = ["proxy", "kserve-container", "transformer-container"];
        assert_eq!(is_probed(&named), [false, true, true]);
        assert_eq!(is_probed(&["server", "proxy"]), [true, false]);
    }
}

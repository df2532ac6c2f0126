use serde_json::json;

use super::MOST_ERRORS;
use crate::fixtures::{errors, model, platform, service};
use crate::manifest::validate::validate;
use crate::runtimes::{Runtime, Runtimes, Scope};

/// Returns the errors of a container with these fields.
fn of_container(fields: &str) -> String {
    let container = format!("{{name: server, image: x, command: [serve], {fields}}}");
    errors(&[], &format!("  predictor: {{containers: [{container}]}}\n"))
}

#[track_caller]
fn finds(fields: &str, expected: &[&str]) {
    let at = |line: &&str| format!("spec.predictor.containers[0].{line}");
    let expected: Vec<_> = expected.iter().map(at).collect();
    assert_eq!(of_container(fields), expected.join("\n"));
}

#[test]
fn ports_have_valid_numbers_and_unique_names() {
    finds(
        "ports: [{containerPort: 0}, {containerPort: 99999}, {containerPort: 1, hostPort: -1}]",
        &[
            "ports[0].containerPort: 0 is no port: write a number from 1 to 65535",
            "ports[1].containerPort: 99999 is no port: write a number from 1 to 65535",
            "ports[2].hostPort: -1 is no port: write a number from 1 to 65535",
        ],
    );
    finds(
        "ports: [{name: http, containerPort: 80}, {name: http, containerPort: 81}, {containerPort: 80}]",
        &[
            "ports[1].name: two ports are called http: rename or remove one",
            "ports[2].containerPort: the port 80 is written twice: remove one",
        ],
    );
    finds(
        "ports: [{containerPort: 1, protocol: tcp, name: My_Port}]",
        &[
            "ports[0].protocol: `tcp` is no protocol of a port: write TCP, UDP or SCTP",
            "ports[0].name: `My_Port` is no name of a port: write at most 15 of a-z, 0-9 and single `-` \
             between them, one letter at least",
        ],
    );
    finds(
        "ports: [{name: h2c-1, containerPort: 53}, {containerPort: 53, protocol: UDP}, {containerPort: 65535, hostPort: 0}]",
        &[],
    );
}

#[test]
fn each_invalid_label_name_is_reported() {
    let found = errors(&[], &model("digits", &["labels: {a b: x, c d: x}"]));
    let fields: Vec<_> = found.lines().filter_map(|line| line.split(": ").next()).collect();
    assert_eq!(fields, ["spec.predictor.labels[a b]", "spec.predictor.labels[c d]"]);
}

#[test]
fn labels_and_annotations_of_the_service_itself_are_checked() {
    let found = errors(&[("a b", "x"), ("Example.com/a", "x")], &model("digits", &[]));
    assert!(found.starts_with("metadata.annotations[a b]: is no name: "), "{found}");
    assert_eq!(found.lines().count(), 1, "{found}");
}

#[test]
fn variables_may_be_set_only_once() {
    finds(
        "env: [{name: A, value: x}, {name: B, value: x}, {name: A, value: z}]",
        &["env[2].name: the variable A is written twice: remove one"],
    );
}

/// Returns the items of a list in YAML, each made from its number.
fn items(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).map(|i| item(i) + ", ").collect()
}

/// The time of a check grows linearly with the parts of a pod: an object on an API server holds tens of thousands of
/// parts, and comparing each with the others would take minutes.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test measures elapsed time")]
fn a_pod_with_thousands_of_parts_is_checked_quickly() {
    let begun = std::time::Instant::now();
    let ports = items(15_000, |i| format!("{{containerPort: {}, name: p{i}}}", i + 1));
    let variables = items(15_000, |i| format!("{{name: v{i}, value: x}}"));
    finds(&format!("ports: [{ports}], env: [{variables}]"), &[]);
    let containers = items(6_000, |i| format!("{{name: c{i}, image: x}}"));
    let spec = model("digits", &[&format!("containers: [{containers}]")]);
    assert_eq!(errors(&[], &format!("{spec}      env: [{variables}]\n")), "");
    let same = items(10_000, |_| "{name: c, image: x}".to_owned());
    let found = errors(&[], &format!("  predictor: {{containers: [{same}]}}\n"));
    assert!(found.lines().count() < 2 * MOST_ERRORS, "{found}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(120));
}

#[test]
fn numbers_of_probes_must_not_be_negative() {
    finds(
        "readinessProbe: {httpGet: {path: /, port: 70000}, periodSeconds: -1}, \
         livenessProbe: {tcpSocket: {port: -2}, failureThreshold: -3, timeoutSeconds: 0}",
        &[
            "readinessProbe.periodSeconds: -1 is below 0: write 1 or more, or leave the field out",
            "readinessProbe.httpGet.port: 70000 is no port: write a number from 1 to 65535",
            "livenessProbe.failureThreshold: -3 is below 0: write 1 or more, or leave the field out",
            "livenessProbe.tcpSocket.port: -2 is no port: write a number from 1 to 65535",
        ],
    );
    finds(
        "readinessProbe: {httpGet: {path: /}}, startupProbe: {grpc: {service: s}}, \
         livenessProbe: {tcpSocket: {port: http}, initialDelaySeconds: 0}",
        &[],
    );
}

#[test]
fn only_readiness_may_need_several_successes_in_a_row() {
    finds(
        "readinessProbe: {tcpSocket: {port: 1}, successThreshold: 3}, livenessProbe: {tcpSocket: {port: 1}, successThreshold: 2}, \
         startupProbe: {tcpSocket: {port: 1}, successThreshold: 3}",
        &[
            "livenessProbe.successThreshold: 2 is not 1: livenessProbe has no other",
            "startupProbe.successThreshold: 3 is not 1: startupProbe has no other",
        ],
    );
}

#[test]
fn amounts_are_not_below_zero_nor_requests_above_limits() {
    finds(
        "resources: {requests: {cpu: -1}}",
        &["resources: the container kserve-container asks for -1 of cpu: write an amount from 0, such as 500m or 4Gi"],
    );
    finds(
        "resources: {requests: {memory: 2Gi}, limits: {memory: 1Gi}}",
        &[
            "resources: the container kserve-container requests 2Gi of memory, and its limit is 1Gi: raise the limit, or \
             request no more",
        ],
    );
}

#[test]
fn times_must_not_be_negative_and_containers_need_unique_names() {
    let spec = "  predictor:
    terminationGracePeriodSeconds: -5
    initContainers: [{name: server, image: x}]
    containers:
    - {name: kserve-container, image: x, lifecycle: {preStop: {sleep: {seconds: -1}}}}
    - {name: server, image: x}
";
    assert_eq!(
        errors(&[], spec),
        "spec.predictor.terminationGracePeriodSeconds: -5 is below 0: write seconds, such as 30\n\
         spec.predictor.containers[1].name: two containers are called server: rename or remove one\n\
         spec.predictor.containers[0].lifecycle.preStop.sleep.seconds: -1 is below 0: write seconds, such as 5"
    );
}

#[test]
fn errors_of_a_model_have_their_line_and_a_canary_does_not_repeat_them() {
    let canary = "  canary:
  - trafficPercent: 20
    predictor: {name: blue, model: {modelFormat: {name: pytorch}, storageUri: pvc://models/blue}}
";
    let ports = "      ports:\n      - containerPort: 99999\n";
    let spec = format!("{}{ports}{canary}", model("digits", &[]));
    let service = service(&[], &spec);
    let found = validate(&service, &Runtimes::default(), &platform()).unwrap_err();
    let located = found.list.iter();
    let located = located.map(|error| service.located(&error.field, &error.message));
    assert_eq!(
        located.collect::<Vec<_>>(),
        ["service.yaml:11:9: spec.predictor.model.ports[0].containerPort: 99999 is no port: write a number from 1 to \
             65535"]
    );
}

#[test]
fn the_merged_pod_of_service_and_runtime_is_checked_too() {
    let container = json!({
        "name": "kserve-container", "image": "x",
        "ports": [{"name": "http", "containerPort": 80}],
        "resources": {"limits": {"cpu": "1"}},
    });
    let spec = json!({
        "supportedModelFormats": [{"name": "pytorch", "autoSelect": true}],
        "containers": [container],
    });
    let runtimes = Runtimes::declared(vec![Runtime {
        name: "runtime".to_owned(),
        scope: Scope::Cluster,
        since: 0,
        server: None,
        spec: serde_json::from_value(spec).unwrap(),
    }]);
    let more = "      ports: [{name: http, containerPort: 81}]
      resources: {requests: {cpu: 2}}
";
    let service = service(&[], &format!("{}{more}", model("digits", &[])));
    let found = validate(&service, &runtimes, &platform()).unwrap_err();
    assert_eq!(
        found.list.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "spec.predictor.model.ports[1].name: two ports are called http: rename or remove one",
            "spec.predictor.model.resources: the container kserve-container requests 2 of cpu, and its limit is 1: raise \
             the limit, or request no more",
        ]
    );
}

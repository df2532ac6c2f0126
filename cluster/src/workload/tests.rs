use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use serde_json::{Value, json};

use super::*;
use crate::ServiceName;

fn container(value: Value) -> Container {
    let mut container: Container = serde_json::from_value(value).unwrap();
    container.name = Workload::CONTAINER.to_owned();
    container
}

fn workload(containers: Vec<Container>) -> Workload {
    let service = ServiceName::new("default", "digits").unwrap();
    Workload {
        ready_call: None,
        revision: service.revision(1).unwrap(),
        template: PodTemplate::from(PodTemplateSpec {
            metadata: None,
            spec: Some(PodSpec { containers, ..PodSpec::default() }),
        }),
        storage: vec![Storage {
            uri: "pvc://models/digits".into(),
            mount_path: Storage::MOUNT_PATH.into(),
            claims: None,
        }],
        replicas: 1,
        concurrency: None,
        scaling: None,
    }
}

#[track_caller]
fn ports(value: Value, http: Option<u16>, grpc: Option<u16>) {
    let expected = ContainerPorts { http, grpc };
    assert_eq!(ContainerPorts::of(&container(value)), expected);
}

#[test]
fn ports_are_declared_or_flags_or_8080() {
    let port = |number: u16, name: &str| json!({ "containerPort": number, "name": name });
    ports(json!({}), Some(8080), Some(8080));
    ports(json!({ "ports": [{ "containerPort": 5000 }] }), Some(5000), None);
    ports(json!({ "ports": [port(9000, "h2c"), port(8080, "http1"), port(8002, "metrics")] }), Some(8080), Some(9000));
    ports(json!({ "ports": [port(9, "grpc-x")] }), None, Some(9));
    let args = |args: &[&str]| json!({ "args": args });
    ports(args(&["--grpc-port=9000", "--http-port", "8085"]), Some(8085), Some(9000));
    ports(args(&["--port=9000", "--rest_port=8080"]), Some(8080), Some(9000));
    ports(args(&["--port=9000", "--rest_api_port=8080"]), Some(8080), Some(9000));
    ports(args(&["--port", "7000"]), Some(7000), None);
    ports(args(&["--http-port=8080", "--grpc-port=9000", "--http-port", "9080"]), Some(9080), Some(9000));
    ports(args(&["--portal", "7000"]), Some(8080), Some(8080));
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let variables = [variable("MLSERVER_HTTP_PORT", "8081"), variable("MLSERVER_GRPC_PORT", "9001")];
    ports(json!({ "env": variables }), Some(8081), Some(9001));
    ports(json!({ "env": variables, "ports": [{ "containerPort": 5000 }] }), Some(5000), Some(9001));
}

#[test]
fn identity_is_template_and_storage() {
    let first = workload(vec![container(json!({ "image": "a" }))]);
    let mut scaled = first.clone();
    scaled.replicas = 7;
    scaled.concurrency = NonZeroU32::new(2);
    scaled.scaling = Some(Arc::default());
    scaled.storage[0].claims = Some("/elsewhere".into());
    assert_eq!(scaled.identity(), first.identity());
    assert_eq!(first.identity().as_str().len(), 16);

    let mut moved = first.clone();
    moved.storage[0].uri = "pvc://models/letters".into();
    assert_ne!(moved.identity(), first.identity());
    let other = workload(vec![container(json!({ "image": "b" }))]);
    assert_ne!(other.identity(), first.identity());
}

/// Revisions persist across versions of Weir: a changed hash would restart every pod of a cluster.
#[test]
fn identity_never_changes_its_value() {
    let kept = workload(vec![container(json!({ "image": "a", "args": ["b", "c"] }))]);
    assert_eq!(kept.identity().as_str(), "c307994a5b3c3dca");
}

fn serving(workload: &Workload) -> Option<Container> {
    PodTemplate::container(&workload.template.read()).cloned()
}

#[test]
fn the_named_container_serves() {
    let mut first = container(json!({}));
    first.name = "transformer-container".to_owned();
    let pod = workload(vec![first.clone(), container(json!({ "image": "b" }))]);
    assert_eq!(serving(&pod).unwrap().image.as_deref(), Some("b"));
    let pod = workload(vec![first.clone()]);
    assert_eq!(serving(&pod), Some(first));
    assert_eq!(serving(&workload(vec![])), None);
}

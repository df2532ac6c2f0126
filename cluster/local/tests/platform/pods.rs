//! Pod templates for the tests.

use k8s_openapi::api::core::v1::{Container, PodSpec, PodTemplateSpec};
use serde_json::{Value, json};
use weir_cluster::{Desired, Destination, RevisionName, Route, ServiceName, Split, Workload};

use crate::server::{self, Behaviour};

/// A container that runs the test server.
pub(crate) fn server(behaviour: Behaviour) -> Value {
    json!({
        "name": "kserve-container",
        "command": server::command(),
        "env": [
            { "name": server::BEHAVIOUR, "value": behaviour.name() },
            { "name": "PORT", "value": "$(PORT)" },
        ],
    })
}

/// A container that runs a shell command and then the test server.
pub(crate) fn server_after(shell: &str, behaviour: Behaviour) -> Value {
    let mut container = server(behaviour);
    let words = server::command().join(" ");
    container["command"] = json!(["/bin/sh", "-c", format!("{shell}; exec {words}")]);
    container
}

/// A container that runs a shell command line and uses `$(PORT)`.
pub(crate) fn shell(line: &str) -> Value {
    json!({ "name": "c", "command": ["/bin/sh", "-c", line], "args": ["sh", "$(PORT)"] })
}

pub(crate) fn template(container: Value) -> PodTemplateSpec {
    let container: Container = serde_json::from_value(container).unwrap();
    PodTemplateSpec {
        metadata: None,
        spec: Some(PodSpec {
            containers: vec![container],
            termination_grace_period_seconds: Some(10),
            ..PodSpec::default()
        }),
    }
}

pub(crate) fn revision(name: &str) -> RevisionName {
    let service = ServiceName::new("default", name).unwrap();
    service.revision(1).unwrap()
}

pub(crate) fn workload(name: &str, template: PodTemplateSpec, replicas: u32) -> Workload {
    Workload::new(revision(name), template, replicas)
}

/// Desired state of a service with one revision.
pub(crate) fn desired(workload: Workload) -> Desired {
    let revision = workload.revision.clone();
    let service = revision.service().clone();
    let route = Route::new(service.clone(), Destination::Split(Split::all(revision)));
    Desired::new(service, vec![workload], Some(route)).unwrap()
}

//! Sets environment variables of containers.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodTemplateSpec};
use weir_cluster::Workload;

/// Sets a variable of the serving container, replacing one that the container has.
pub(super) fn set(mut template: PodTemplateSpec, name: &str, value: &str) -> PodTemplateSpec {
    let containers = template.spec.as_mut().map(|pod| &mut pod.containers);
    if let Some(containers) = containers {
        let serving = containers.iter().position(|container| container.name == Workload::CONTAINER);
        if let Some(container) = containers.get_mut(serving.unwrap_or(0)) {
            let env = container.env.get_or_insert_default();
            env.retain(|variable| variable.name != name);
            env.push(variable(name, value));
        }
    }
    template
}

/// Sets a variable, unless the container has it.
pub(super) fn set_default(container: &mut Container, name: &str, value: &str) {
    let env = container.env.get_or_insert_default();
    if !env.iter().any(|variable| variable.name == name) {
        env.push(variable(name, value));
    }
}

fn variable(name: &str, value: &str) -> EnvVar {
    EnvVar { name: name.to_owned(), value: Some(value.to_owned()), value_from: None }
}

//! Environment variables of containers, and those through which `weir-runtime` reads its settings.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, EnvVar, PodTemplateSpec};
use weir_cluster::{ControlRoutes, PodTemplate};

/// Variable for `weir-runtime`'s `--max-batch-seconds`.
const BATCH_LIMIT: &str = "WEIR_MAX_BATCH_SECONDS";

/// Sets the limit in the serving container, replacing one that it has. Servers other than `weir-runtime` ignore the
/// variable.
pub(crate) fn limit_batches(template: PodTemplateSpec, limit: Option<Duration>) -> PodTemplateSpec {
    match limit {
        Some(limit) => set(template, BATCH_LIMIT, &limit.as_secs().to_string()),
        None => template,
    }
}

/// Variable for `weir-runtime`'s `--control-routes`. The routes are closed unless the pod sets it.
const CONTROL_ROUTES: &str = "WEIR_CONTROL_ROUTES";

/// Opens the control routes of the serving container. Servers other than `weir-runtime` ignore the variable.
pub(crate) fn allow_control(template: PodTemplateSpec, control: ControlRoutes) -> PodTemplateSpec {
    match control {
        ControlRoutes::Open => set(template, CONTROL_ROUTES, "open"),
        ControlRoutes::Closed => template,
    }
}

/// Sets a variable of the serving container, replacing one that the container has.
fn set(mut template: PodTemplateSpec, name: &str, value: &str) -> PodTemplateSpec {
    let containers = template.spec.as_mut().map(|pod| &mut pod.containers);
    if let Some(container) = containers.and_then(|containers| PodTemplate::serving_mut(containers)) {
        let env = container.env.get_or_insert_default();
        env.retain(|variable| variable.name != name);
        env.push(variable(name, value));
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

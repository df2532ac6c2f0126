//! The limit on the time of a batch, as `weir-runtime` reads it. Other servers ignore the variable.

use std::time::Duration;

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec};
use weir_cluster::Workload;

/// Variable of `weir-runtime`'s `--max-batch-seconds`.
const VARIABLE: &str = "WEIR_MAX_BATCH_SECONDS";

/// Sets the limit in the serving container, in place of one that it has.
pub(crate) fn limit_batches(
    mut template: PodTemplateSpec,
    limit: Option<Duration>,
) -> PodTemplateSpec {
    let containers = template.spec.as_mut().map(|pod| &mut pod.containers);
    if let (Some(limit), Some(containers)) = (limit, containers) {
        let serving = containers
            .iter()
            .position(|container| container.name == Workload::CONTAINER);
        if let Some(container) = containers.get_mut(serving.unwrap_or(0)) {
            let env = container.env.get_or_insert_default();
            env.retain(|variable| variable.name != VARIABLE);
            env.push(EnvVar {
                name: VARIABLE.to_owned(),
                value: Some(limit.as_secs().to_string()),
                value_from: None,
            });
        }
    }
    template
}

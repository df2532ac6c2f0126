//! Limit on the time of a batch, as `weir-runtime` reads it. Other servers ignore the variable.

use std::time::Duration;

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::variable;

/// Environment variable for `weir-runtime`'s `--max-batch-seconds`.
const VARIABLE: &str = "WEIR_MAX_BATCH_SECONDS";

/// Sets the limit in the serving container, replacing one that it has.
pub(crate) fn limit_batches(template: PodTemplateSpec, limit: Option<Duration>) -> PodTemplateSpec {
    match limit {
        Some(limit) => variable::set(template, VARIABLE, &limit.as_secs().to_string()),
        None => template,
    }
}

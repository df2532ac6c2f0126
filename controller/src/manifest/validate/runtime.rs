//! Validation of runtimes.

use std::collections::{HashMap, HashSet};

use weir_crds::{Effect, ServingRuntimeSpec, unsupported_in_runtime};

use super::error_list::ErrorList;
use crate::manifest::field_error::{FieldError, IgnoredField};

/// Validates a runtime; returns its errors, and its fields without effect.
#[must_use]
pub fn validate_runtime(runtime: &ServingRuntimeSpec) -> (Vec<FieldError>, Vec<IgnoredField>) {
    let mut errors = ErrorList::default();
    let mut ignored_fields = Vec::new();
    for given in unsupported_in_runtime(runtime) {
        match given.effect {
            Effect::Refused => errors.add(given.field, format!("not supported: {}", given.reason)),
            Effect::Ignored => {
                ignored_fields.push(IgnoredField { field: given.field, reason: given.reason.to_owned() });
            }
        }
    }
    if runtime.pod.containers.is_empty() {
        errors.add("spec.containers", "a runtime needs a container");
    }
    priorities(runtime, &mut errors);
    (errors.list, ignored_fields)
}

fn priorities(runtime: &ServingRuntimeSpec, errors: &mut ErrorList) {
    let mut before: HashMap<&str, HashSet<i32>> = HashMap::new();
    for (i, format) in runtime.supported_model_formats.iter().enumerate() {
        let Some(priority) = format.priority else {
            continue;
        };
        let priorities = before.entry(&format.name).or_default();
        priorities.insert(priority);
        if priorities.len() > 1 {
            let field = format!("spec.supportedModelFormats[{i}].priority");
            let name = &format.name;
            let message = format!("different priorities assigned for the model format {name}");
            errors.add(field, message);
        }
    }
}

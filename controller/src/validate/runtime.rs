//! Whether a runtime can be used.

use weir_crds::{Effect, ServingRuntimeSpec, unsupported_in_runtime};

use super::{FieldError, Found, IgnoredField, right};

/// What is wrong with a runtime, and what of it has no effect.
#[must_use]
pub fn validate_runtime(runtime: &ServingRuntimeSpec) -> (Vec<FieldError>, Vec<IgnoredField>) {
    let mut found = Found::default();
    let mut ignored_fields = Vec::new();
    for given in unsupported_in_runtime(runtime) {
        match given.effect {
            Effect::Refused => found.add(given.field, format!("not supported: {}", given.reason)),
            Effect::Ignored => ignored_fields.push(IgnoredField {
                field: given.field,
                because: given.reason.to_owned(),
            }),
        }
    }
    let has_container = !runtime.pod.containers.is_empty();
    found.check(
        right(has_container),
        "spec.containers",
        "a runtime needs a container",
    );
    priorities(runtime, &mut found);
    (found.list, ignored_fields)
}

fn priorities(runtime: &ServingRuntimeSpec, found: &mut Found) {
    let formats = &runtime.supported_model_formats;
    for (i, format) in formats.iter().enumerate() {
        let differs = formats[..i].iter().any(|other| {
            let both = other.priority.is_some() && format.priority.is_some();
            other.name == format.name && both && other.priority != format.priority
        });
        let field = format!("spec.supportedModelFormats[{i}].priority");
        let because = format!(
            "different priorities assigned for the model format {}",
            format.name
        );
        found.check(right(!differs), field, because);
    }
}

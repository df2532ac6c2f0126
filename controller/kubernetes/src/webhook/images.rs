//! Check for containers without an image, which no API server accepts in a pod. Pure.
//!
//! Without Kubernetes a container may have a command and no image, so the controller's own rules do not check this.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use weir_controller::{FieldError, Validated, Variant, component_field};

/// Returns an error for each container without an image, at the predictor that has it. A container that lacks an image
/// in both the service and its runtime is one error.
pub(super) fn missing_images(validated: &Validated) -> Vec<FieldError> {
    let stable = ("spec.predictor".to_owned(), &validated.predictor);
    let canaries = validated
        .canaries
        .iter()
        .enumerate()
        .map(|(i, canary)| (format!("spec.canary[{i}].predictor"), &canary.variant));
    let mut known = BTreeSet::new();
    [stable]
        .into_iter()
        .chain(canaries)
        .flat_map(|(path, variant)| {
            let names = without_image(variant).into_iter();
            names.map(move |name| (path.clone(), name))
        })
        // A canary shares most of its pod with the stable predictor.
        .filter(|(_, name)| known.insert(name.clone()))
        .map(|(path, name)| {
            let message = format!("the container {name} has no image: write one, such as `image: example/server:1`");
            let field = format!("{path}.containers[{name}].image");
            FieldError::new(component_field(validated.service.component(), field), message)
        })
        .collect()
}

fn without_image(variant: &Variant) -> Vec<String> {
    let template = variant.template.read();
    let has_none = |container: &&Container| container.image.as_deref().unwrap_or_default().is_empty();
    let pods = template.spec.iter();
    let all = pods.flat_map(|pod| pod.init_containers.iter().flatten().chain(&pod.containers));
    all.filter(has_none).map(|container| container.name.clone()).collect()
}

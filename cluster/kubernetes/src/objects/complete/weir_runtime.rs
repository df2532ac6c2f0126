//! Weir's own runtime, recognised by its image.

use k8s_openapi::api::core::v1::Container;
use weir_cluster::image_name;

/// Last path component of the image's name, whatever the registry.
const IMAGE: &str = "weir-runtime";

/// Returns true if a container runs Weir's own runtime.
pub(super) fn is_ours(container: &Container) -> bool {
    container.image.as_deref().is_some_and(|image| image_name(image) == IMAGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_runtime_is_recognised_whatever_the_registry() {
        let of = |image: &str| is_ours(&Container { image: Some(image.to_owned()), ..Container::default() });
        assert!(of("weir-runtime"));
        assert!(of("registry.example.com:5000/team/weir-runtime:1.2-cuda"));
        assert!(of("ghcr.io/weir/weir-runtime@sha256:00"));
        assert!(!of("weir"));
        assert!(!of("weir-runtime/other:1"));
    }
}

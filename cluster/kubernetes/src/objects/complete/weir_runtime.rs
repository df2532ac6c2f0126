//! Weir's own runtime, recognised by its image.

use k8s_openapi::api::core::v1::Container;
use weir_cluster::image_name;

/// Last path component of the image's name, whatever the registry.
const IMAGE: &str = "weir-runtime";

/// Returns true if a container runs Weir's own runtime.
pub(super) fn is_ours(container: &Container) -> bool {
    container.image.as_deref().is_some_and(|image| image_name(image) == IMAGE)
}

/// Port of the runtime's metrics without a flag.
const METRICS: u16 = 8002;

/// Returns the port of the metrics of a container that runs Weir's own runtime.
pub(super) fn metrics_port(container: &Container) -> u16 {
    let words: Vec<_> = container.command.iter().chain(&container.args).flatten().collect();
    let next = |at: usize| words.get(at + 1).map(|word| word.as_str());
    let mut values = words.iter().enumerate().filter_map(|(at, word)| match word.strip_prefix("--metrics-port")? {
        "" => next(at),
        rest => rest.strip_prefix('='),
    });
    // If a flag is repeated, the last value counts.
    values.next_back().and_then(|value| value.parse().ok()).unwrap_or(METRICS)
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

    #[test]
    fn the_last_flag_sets_the_port_of_the_metrics() {
        let of = |args: &[&str]| {
            let args = args.iter().map(|word| (*word).to_owned()).collect();
            metrics_port(&Container { args: Some(args), ..Container::default() })
        };
        assert_eq!(of(&["--http-port=8080"]), 8002);
        assert_eq!(of(&["--metrics-port=9000", "--metrics-port", "9001"]), 9001);
        assert_eq!(of(&["--metrics-port"]), 8002);
    }
}

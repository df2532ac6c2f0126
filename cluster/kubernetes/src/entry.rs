//! The containers of a pod, and the one that gets the requests.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use weir_cluster::Workload;

/// Name of the container that prepares requests for the one that serves, in the same pod.
pub(crate) const TRANSFORMER: &str = "transformer-container";

/// The container that gets the requests: a transformer, else the one that serves.
pub(crate) fn entry(pod: &PodSpec) -> Option<&Container> {
    let named = |name: &str| pod.containers.iter().find(|c| c.name == name);
    named(TRANSFORMER).or_else(|| named(Workload::CONTAINER)).or(pod.containers.first())
}

/// All containers of a pod, those included that run before the others.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transformer_gets_the_requests() {
        let of = |names: &[&str]| {
            let container = |name: &&str| Container { name: (*name).to_owned(), ..Container::default() };
            let pod = PodSpec { containers: names.iter().map(container).collect(), ..PodSpec::default() };
            entry(&pod).map(|container| container.name.clone()).unwrap()
        };
        assert_eq!(of(&["kserve-container", "transformer-container"]), "transformer-container");
        assert_eq!(of(&["proxy", "kserve-container"]), "kserve-container");
        assert_eq!(of(&["server", "proxy"]), "server");
    }
}

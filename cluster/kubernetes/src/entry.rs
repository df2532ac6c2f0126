//! Containers of a pod, and the one that receives the requests.

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use weir_cluster::PodTemplate;

/// Name of the container that pre-processes requests for the model server in the same pod (KServe transformer).
pub(crate) const TRANSFORMER: &str = "transformer-container";

/// Returns the container that receives the requests: the transformer, else the model server, else the first one.
pub(crate) fn entry(pod: &PodSpec) -> Option<&Container> {
    let transformer = pod.containers.iter().find(|container| container.name == TRANSFORMER);
    transformer.or_else(|| PodTemplate::serving(&pod.containers))
}

/// Returns all containers of a pod, init containers first.
pub(crate) fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let spec = pod.spec.iter();
    spec.flat_map(|spec| spec.init_containers.iter().flatten().chain(&spec.containers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transformer_receives_the_requests() {
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

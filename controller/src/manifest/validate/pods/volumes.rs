//! Checks of volumes: missing ones, duplicates, and several at one mount path.

use std::collections::HashSet;

use k8s_openapi::api::core::v1::{Container, PodSpec};

/// KServe's names of the volumes that the controller adds for models; other containers may mount them.
const OF_MODELS: [&str; 2] = ["kserve-provision-location", "kserve-pvc-source"];

/// Returns messages about the volumes of a pod.
pub(super) fn errors(pod: &PodSpec) -> Vec<String> {
    let names: Vec<_> = pod.volumes.iter().flatten().map(|v| &*v.name).collect();
    let twice = twice(names.iter().copied());
    let twice = twice.map(|name| format!("two volumes are called {name}: rename or remove one"));
    let names: HashSet<_> = names.iter().copied().collect();
    let all = pod.init_containers.iter().flatten().chain(&pod.containers);
    let of_containers = all.flat_map(|container| of_container(container, &names));
    twice.chain(of_containers).collect()
}

fn of_container(container: &Container, volumes: &HashSet<&str>) -> Vec<String> {
    let mounts = || container.volume_mounts.iter().flatten();
    let is_there = |name: &str| volumes.contains(name) || OF_MODELS.iter().any(|model| name.starts_with(model));
    let name = &container.name;
    let unknown = mounts().filter(|mount| !is_there(&mount.name)).map(|mount| {
        format!(
            "the container {name} mounts the volume {}, which the pod does not have: add it to volumes, or remove the \
             volumeMount",
            mount.name
        )
    });
    let places = mounts().map(|mount| &*mount.mount_path);
    let twice = twice(places).map(|place| format!("the container {name} mounts two volumes at {place}: remove one"));
    unknown.chain(twice).collect()
}

/// Returns the values that occur more than once, each of them once.
fn twice<'a>(all: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
    let (mut seen, mut returned) = (HashSet::new(), HashSet::new());
    all.filter(move |one| !seen.insert(*one) && returned.insert(*one))
}

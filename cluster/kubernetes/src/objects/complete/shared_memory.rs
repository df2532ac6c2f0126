//! Shared memory for pods with GPUs: libraries pass tensors between processes through it, and the default of 64 MiB is
//! soon full.

use k8s_openapi::api::core::v1::{Container, EmptyDirVolumeSource, PodSpec, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::device::Gpus;

const PATH: &str = "/dev/shm";
const VOLUME: &str = "dshm";

/// Mounts shared memory into the containers with a GPU, unless the pod does so itself. The content counts against the
/// memory of the container that writes it, so the size limit is the memory of the first of these containers.
pub(super) fn mount(pod: &mut PodSpec, gpus: &Gpus) {
    let is_there = pod.volumes.iter().flatten().any(|v| v.name == VOLUME);
    let needs_it = |c: &&mut Container| gpus.are_in(c) && !mounts_it(c);
    let needy: Vec<_> = pod.containers.iter_mut().filter(needs_it).collect();
    let Some(first) = needy.first().filter(|_| !is_there) else {
        return;
    };
    let size = memory(first);
    for container in needy {
        container.volume_mounts.get_or_insert_default().push(VolumeMount {
            name: VOLUME.to_owned(),
            mount_path: PATH.to_owned(),
            ..VolumeMount::default()
        });
    }
    pod.volumes.get_or_insert_default().push(Volume {
        name: VOLUME.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource { medium: Some("Memory".to_owned()), size_limit: size }),
        ..Volume::default()
    });
}

fn mounts_it(container: &Container) -> bool {
    let mut mounts = container.volume_mounts.iter().flatten();
    mounts.any(|mount| mount.mount_path.trim_end_matches('/') == PATH)
}

/// Returns the memory limit of a container, or else its memory request.
fn memory(container: &Container) -> Option<Quantity> {
    let resources = container.resources.as_ref()?;
    let of = |all: &Option<std::collections::BTreeMap<String, Quantity>>| {
        all.as_ref().and_then(|all| all.get("memory").cloned())
    };
    of(&resources.limits).or_else(|| of(&resources.requests))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn completed(pod: &Value) -> PodSpec {
        let mut pod: PodSpec = serde_json::from_value(pod.clone()).unwrap();
        mount(&mut pod, &Gpus::of(&BTreeMap::new()));
        pod
    }

    #[test]
    fn shared_memory_is_as_large_as_the_memory_limit() {
        let limits = json!({ "nvidia.com/gpu": "1", "memory": "16Gi" });
        let pod = completed(&json!({ "containers": [
            { "name": "kserve-container", "resources": { "limits": limits } }, { "name": "proxy" }
        ] }));
        let volume = &pod.volumes.unwrap()[0];
        let directory = volume.empty_dir.as_ref().unwrap();
        assert_eq!(directory.medium.as_deref(), Some("Memory"));
        assert_eq!(directory.size_limit, Some(Quantity("16Gi".to_owned())));
        assert_eq!(pod.containers[0].volume_mounts.as_ref().unwrap()[0].mount_path, PATH);
        assert_eq!(pod.containers[1].volume_mounts, None);
    }

    #[test]
    fn a_pod_without_gpus_or_with_own_shared_memory_is_left_alone() {
        for pod in [
            json!({ "containers": [{ "name": "a", "resources": { "limits": { "memory": "1Gi" } } }] }),
            json!({
                "containers": [{
                    "name": "a", "resources": { "limits": { "nvidia.com/gpu": "1" } },
                    "volumeMounts": [{ "name": "own", "mountPath": "/dev/shm/" }],
                }],
                "volumes": [{ "name": "own", "emptyDir": { "medium": "Memory" } }],
            }),
        ] {
            let before: PodSpec = serde_json::from_value(pod.clone()).unwrap();
            assert_eq!(completed(&pod), before);
        }
    }
}

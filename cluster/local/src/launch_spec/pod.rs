//! The fields of a pod that a local process can have.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::options::Gpu;
use crate::probe::Probe;

/// Resources that the controller fills in by default, as KServe does; they are no sign that the manifest sets
/// resources.
const FILLED_IN: [(&str, &str); 2] = [("cpu", "1"), ("memory", "2Gi")];

/// Resource name of NVIDIA's GPUs in Kubernetes.
const GPU: &str = "nvidia.com/gpu";

/// Refuses pods that a process cannot replace faithfully. Fields that only place, limit or secure a pod are accepted
/// and reported by [`ignored_fields`].
pub(super) fn check(pod: &PodSpec, container: &Container) -> Result<(), String> {
    let no = |what: &str| Err(format!("{what} needs Kubernetes"));
    let others = pod.containers.iter().find(|c| c.name != container.name);
    if let Some(other) = others {
        return no(&format!("a second container ({})", other.name));
    }
    if let Some(init) = pod.init_containers.iter().flatten().next() {
        return no(&format!("the init container {}", init.name));
    }
    if container.env_from.iter().flatten().next().is_some() {
        return no("envFrom");
    }
    let hooks = container.lifecycle.as_ref();
    if hooks.is_some_and(|hooks| hooks.post_start.is_some()) {
        return no("a postStart hook");
    }
    let stop = hooks.and_then(|hooks| hooks.pre_stop.as_ref());
    if stop.is_some_and(|stop| stop.sleep.is_none()) {
        return no("a preStop hook other than sleep");
    }
    check_volumes(pod, container)
}

/// Checks the mounted volumes. An `emptyDir` can be any directory of this machine; other volumes have contents that
/// exist only in a cluster.
fn check_volumes(pod: &PodSpec, container: &Container) -> Result<(), String> {
    for mount in container.volume_mounts.iter().flatten() {
        let volume = pod.volumes.iter().flatten().find(|v| v.name == mount.name);
        if volume.is_none_or(|volume| volume.empty_dir.is_none()) {
            let path = &mount.mount_path;
            return Err(format!("the volume {} at {path} needs Kubernetes; give a model by storageUri", mount.name));
        }
    }
    Ok(())
}

/// Returns the fields that are set but have no effect on a process.
pub(super) fn ignored_fields(pod: &PodSpec, container: &Container, gpu: Gpu) -> Vec<&'static str> {
    let image = container.image.as_ref().and(container.command.as_ref());
    let fields = [
        ("image", image.is_some()),
        (
            "the version of the image (runtimeVersion), as the weir-runtime of this machine runs",
            image.is_none() && has_version(container),
        ),
        ("resources, which are not enforced", has_own_resources(container)),
        ("nvidia.com/gpu, of which this machine has none", gpu == Gpu::Absent && wants_gpu(container)),
        ("livenessProbe", container.liveness_probe.is_some() && !Probe::has_liveness(container)),
        ("startupProbe", container.startup_probe.is_some() && Probe::startup(container).is_none()),
        ("container securityContext", container.security_context.is_some()),
        ("securityContext", pod.security_context.is_some()),
        ("serviceAccountName", pod.service_account_name.is_some()),
        ("imagePullSecrets", pod.image_pull_secrets.is_some()),
        ("nodeSelector", pod.node_selector.is_some()),
        ("affinity", pod.affinity.is_some()),
        ("tolerations", pod.tolerations.is_some()),
        ("topologySpreadConstraints", pod.topology_spread_constraints.is_some()),
        ("priorityClassName", pod.priority_class_name.is_some()),
        ("runtimeClassName", pod.runtime_class_name.is_some()),
        ("schedulerName", pod.scheduler_name.is_some()),
        ("resourceClaims", pod.resource_claims.is_some()),
    ];
    let set = fields.into_iter().filter(|(_, is_set)| *is_set);
    set.map(|(field, _)| field).collect()
}

/// Returns true if the container's image has a tag or a digest.
fn has_version(container: &Container) -> bool {
    let image = container.image.as_deref().unwrap_or_default();
    let name = image.rsplit('/').next().unwrap_or_default();
    name.contains([':', '@'])
}

/// Returns true if the container has resources other than the defaults that the controller fills in.
fn has_own_resources(container: &Container) -> bool {
    let Some(resources) = &container.resources else {
        return false;
    };
    let is_own =
        |(resource, amount): (&String, &Quantity)| !FILLED_IN.contains(&(resource.as_str(), amount.0.as_str()));
    let lists = [&resources.limits, &resources.requests].into_iter();
    resources.claims.is_some() || lists.flatten().flatten().any(is_own)
}

/// Returns true if the container requests a GPU.
fn wants_gpu(container: &Container) -> bool {
    let resources = container.resources.iter();
    let mut lists = resources.flat_map(|resources| [&resources.limits, &resources.requests]);
    lists.any(|list| list.as_ref().is_some_and(|list| list.contains_key(GPU)))
}

/// Returns the container's variables, with model paths replaced by those on this machine.
pub(super) fn variables(
    container: &Container,
    relocate: impl Fn(&str) -> String,
) -> Result<Vec<(String, String)>, String> {
    let each = container.env.iter().flatten().map(|variable| {
        if variable.value_from.is_some() {
            return Err(format!("the variable {} uses valueFrom, which needs Kubernetes", variable.name));
        }
        let value = variable.value.as_deref().unwrap_or_default();
        Ok((variable.name.clone(), relocate(value)))
    });
    each.collect()
}

/// Returns `preStop.sleep`: the time that gateways have to notice that the replica terminates.
pub(super) fn pre_stop_delay(container: &Container) -> Option<Duration> {
    let stop = container.lifecycle.as_ref()?.pre_stop.as_ref()?;
    seconds(stop.sleep.as_ref()?.seconds)
}

/// Returns `terminationGracePeriodSeconds`. A local process gets this time in addition to the preStop delay, whereas
/// Kubernetes includes the delay in it.
pub(super) fn grace(pod: &PodSpec) -> Option<Duration> {
    seconds(pod.termination_grace_period_seconds?)
}

fn seconds(seconds: i64) -> Option<Duration> {
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

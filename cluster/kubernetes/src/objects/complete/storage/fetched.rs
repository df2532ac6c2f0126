//! Init container that fetches a model before the server starts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, PodSpec, ResourceRequirements, SeccompProfile, SecurityContext,
    Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::Options;

/// Resources of the fetch, as KServe's: files are streamed through memory in parts.
const REQUESTS: [(&str, &str); 2] = [("cpu", "100m"), ("memory", "100Mi")];
const LIMITS: [(&str, &str); 2] = [("cpu", "1"), ("memory", "1Gi")];

/// User ID of Weir's image.
const USER: i64 = 65532;

/// Adds the volume and the init container that fills it. It comes before the pod's own init containers, which may read
/// the files.
pub(super) fn add(pod: &mut PodSpec, name: &str, volume: &str, (uri, directory): (&str, &str), options: &Options) {
    pod.volumes.get_or_insert_default().push(Volume {
        name: volume.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource::default()),
        ..Volume::default()
    });
    let security_context = restricted(pod);
    let container = Container {
        name: name.to_owned(),
        image: Some(options.weir_image.clone()),
        args: Some(["fetch", uri, directory].map(str::to_owned).into()),
        volume_mounts: Some(vec![VolumeMount {
            name: volume.to_owned(),
            mount_path: directory.to_owned(),
            ..VolumeMount::default()
        }]),
        resources: Some(ResourceRequirements {
            requests: Some(quantities(REQUESTS)),
            limits: Some(quantities(LIMITS)),
            claims: None,
        }),
        security_context: Some(security_context),
        ..Container::default()
    };
    let first = pod.init_containers.get_or_insert_default();
    first.insert(0, container);
}

fn quantities(all: [(&str, &str); 2]) -> BTreeMap<String, Quantity> {
    all.map(|(name, value)| (name.to_owned(), Quantity(value.to_owned()))).into()
}

/// Returns a security context with only the rights that a fetch needs. If the pod's own security context sets root as
/// the user, the fetch gets another user, because the kubelet refuses root with runAsNonRoot.
fn restricted(pod: &PodSpec) -> SecurityContext {
    let of_pod = pod.security_context.as_ref();
    let is_root = of_pod.and_then(|context| context.run_as_user) == Some(0);
    SecurityContext {
        run_as_user: is_root.then_some(USER),
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
        read_only_root_filesystem: Some(true),
        run_as_non_root: Some(true),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
        ..SecurityContext::default()
    }
}

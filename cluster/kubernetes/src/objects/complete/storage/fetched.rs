//! Init container that fetches a model before the server starts.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, PodSpec, ResourceRequirements, SeccompProfile, SecurityContext, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use weir_crds::{StorageContainer, quantity_value};

use super::credentials::{self, CREDENTIALS};
use super::{FetchContext, node_cache, variables};

/// Annotations of a service about the container's resources and image.
const CPU: &str = "weir.dev/storage-initializer-cpu";
const MEMORY: &str = "weir.dev/storage-initializer-memory";
const IMAGE: &str = "weir.dev/storage-initializer-image";

/// Annotation of a service with the disk that its fetches request.
pub(crate) const DISK_REQUEST: &str = "weir.dev/storage-initializer-ephemeral-storage";

/// Variable by which `weir fetch` serves its progress, and the port that it names. An image of another version, which
/// a service may choose, ignores the variable.
pub(crate) const PROGRESS_VARIABLE: &str = "WEIR_PROGRESS_PORT";
pub(crate) const PROGRESS_PORT: u16 = 9095;

/// User ID of Weir's image.
const USER: i64 = 65532;

/// Fetch of one model.
pub(super) struct Fetch<'a> {
    /// Name of the init container.
    pub(super) name: String,
    pub(super) uri: &'a str,
    /// Directory for the files, in the volume.
    pub(super) directory: &'a str,
    /// Volume, and the path at which it is mounted.
    pub(super) volume: (String, &'a str),
    /// Container of the cluster that fetches the model; None for Weir's own.
    pub(super) by: Option<&'a StorageContainer>,
}

/// Adds the init container of a fetch at this index. It comes before the pod's own init containers, which may read the
/// files. `serving` are the variables of the serving container.
pub(super) fn add(pod: &mut PodSpec, at: usize, fetch: &Fetch<'_>, serving: &[EnvVar], context: &FetchContext<'_>) {
    let secrets = credentials::secrets(fetch.uri, pod, context);
    let mut mounts = vec![VolumeMount {
        name: fetch.volume.0.clone(),
        mount_path: fetch.volume.1.to_owned(),
        ..VolumeMount::default()
    }];
    mounts.extend(credentials::mount(pod, &secrets));
    mounts.extend(variables::mount_ca_bundle(pod, context));
    let env = variables::variables(serving, context);
    let mut container = match fetch.by {
        Some(declared) => Container {
            env_from: Some(credentials::as_variables(&secrets)).filter(|sources| !sources.is_empty()),
            ..by_cluster(declared, fetch, context)
        },
        None => Container {
            security_context: Some(restricted(pod)),
            env: progress_port(pod),
            ..by_weir(fetch, &secrets, context)
        },
    };
    container.volume_mounts.get_or_insert_default().extend(mounts);
    if fetch.by.is_none() {
        node_cache::add(pod, &mut container, context);
    }
    let own = container.env.take().unwrap_or_default();
    let is_own = |variable: &EnvVar| own.iter().any(|own| own.name == variable.name);
    let env: Vec<_> = env.into_iter().filter(|variable| !is_own(variable)).chain(own.iter().cloned()).collect();
    container.env = Some(env).filter(|env| !env.is_empty());
    pod.init_containers.get_or_insert_default().insert(at, container);
}

/// Returns Weir's own container.
fn by_weir(fetch: &Fetch<'_>, secrets: &[String], context: &FetchContext<'_>) -> Container {
    let image = context.annotations.get(IMAGE).unwrap_or(&context.options.weir_image);
    let args = ["fetch", fetch.uri, fetch.directory];
    let credentials = if secrets.is_empty() { &[][..] } else { &["--credentials", CREDENTIALS] };
    Container {
        name: fetch.name.clone(),
        image: Some(image.clone()),
        args: Some(args.iter().chain(credentials).map(|&arg| arg.to_owned()).collect()),
        resources: Some(resources(context)),
        ..Container::default()
    }
}

/// Returns the variable with the port for the progress; None for a pod in its node's network, where the port may be
/// taken.
fn progress_port(pod: &PodSpec) -> Option<Vec<EnvVar>> {
    let port = EnvVar { name: PROGRESS_VARIABLE.to_owned(), value: Some(PROGRESS_PORT.to_string()), value_from: None };
    (pod.host_network != Some(true)).then(|| vec![port])
}

/// Returns the container that the cluster declares for a URI, with KServe's arguments after its own.
fn by_cluster(declared: &StorageContainer, fetch: &Fetch<'_>, context: &FetchContext<'_>) -> Container {
    let mut container = Container::clone(&declared.spec.container);
    container.name.clone_from(&fetch.name);
    let args = container.args.get_or_insert_default();
    args.extend([fetch.uri, fetch.directory].map(str::to_owned));
    container.resources.get_or_insert_with(|| resources(context));
    container
}

/// Returns the installation's resources with the limits that the service's annotations set. No request exceeds its
/// limit. Disk is requested but not limited, because the files stay in the pod after the container has ended.
fn resources(context: &FetchContext<'_>) -> ResourceRequirements {
    let mut resources = context.options.fetch.resources.clone();
    for (resource, annotation) in [("cpu", CPU), ("memory", MEMORY)] {
        if let Some(limit) = context.annotations.get(annotation) {
            set(&mut resources.limits, resource, limit);
            let is_above = |request: &Quantity| quantity_value(&request.0) > quantity_value(limit);
            if resources.requests.as_ref().and_then(|all| all.get(resource)).is_some_and(is_above) {
                set(&mut resources.requests, resource, limit);
            }
        }
    }
    if let Some(amount) = context.annotations.get(DISK_REQUEST) {
        set(&mut resources.requests, "ephemeral-storage", amount);
    }
    resources
}

fn set(amounts: &mut Option<BTreeMap<String, Quantity>>, resource: &str, amount: &str) {
    amounts.get_or_insert_default().insert(resource.to_owned(), Quantity(amount.trim().to_owned()));
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

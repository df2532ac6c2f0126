//! Access of an init container to the cache of models on its node: the address, and a token for the cache alone.

use k8s_openapi::api::core::v1::{
    Container, PodSpec, ProjectedVolumeSource, ServiceAccountTokenProjection, Volume, VolumeMount, VolumeProjection,
};

use super::FetchContext;

/// Audience of the token. The API server and other services do not accept it.
const AUDIENCE: &str = "weir-model-cache";

/// Volume with the token, which no other container of the pod mounts.
const VOLUME: &str = "weir-model-cache-token";

/// Directory of the token in the init container. `weir fetch` reads `token` there by default.
const DIRECTORY: &str = "/var/run/weir/model-cache";

/// Lifetime of the token in seconds, the shortest that Kubernetes accepts. The kubelet renews the token while the pod
/// exists.
const LIFETIME: i64 = 600;

/// Lets Weir's own init container use the cache, if the installation has one.
pub(super) fn add(pod: &mut PodSpec, container: &mut Container, context: &FetchContext<'_>) {
    let Some(url) = &context.options.fetch.node_cache else {
        return;
    };
    container.args.get_or_insert_default().extend(["--cache".to_owned(), url.clone()]);
    container.volume_mounts.get_or_insert_default().push(VolumeMount {
        name: VOLUME.to_owned(),
        mount_path: DIRECTORY.to_owned(),
        read_only: Some(true),
        ..VolumeMount::default()
    });
    let volumes = pod.volumes.get_or_insert_default();
    if !volumes.iter().any(|volume| volume.name == VOLUME) {
        volumes.push(token());
    }
}

fn token() -> Volume {
    let token = ServiceAccountTokenProjection {
        audience: Some(AUDIENCE.to_owned()),
        expiration_seconds: Some(LIFETIME),
        path: "token".to_owned(),
    };
    let source = VolumeProjection { service_account_token: Some(token), ..VolumeProjection::default() };
    let projected = ProjectedVolumeSource { sources: Some(vec![source]), ..ProjectedVolumeSource::default() };
    Volume { name: VOLUME.to_owned(), projected: Some(projected), ..Volume::default() }
}

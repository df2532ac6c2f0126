//! A model's files in the pods of its revision.

use k8s_openapi::api::core::v1::{
    PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec, Volume, VolumeMount,
};
use weir_cluster::{ClusterError, Storage, Workload};

use crate::stored::StoredRevision;

/// Puts a revision's models where its container expects them, read-only.
///
/// # Errors
/// [`ClusterError::Refused`], naming the URI, when it is none that a volume can hold.
pub(super) fn mount(
    stored: &StoredRevision,
    template: &mut PodTemplateSpec,
) -> Result<(), ClusterError> {
    let Some(pod) = template.spec.as_mut() else {
        return Ok(());
    };
    for (number, storage) in stored.storage.iter().enumerate() {
        let Some((claim, path)) = claimed(storage) else {
            let because = format!(
                "storage {:?} is not supported on Kubernetes: use pvc://CLAIM/PATH",
                storage.uri
            );
            return Err(ClusterError::refused(&stored.revision, because));
        };
        mount_claim(pod, &format!("model-{number}"), claim, path, storage);
    }
    Ok(())
}

/// Claim and path of `pvc://CLAIM/PATH`.
fn claimed(storage: &Storage) -> Option<(&str, &str)> {
    let rest = storage.uri.strip_prefix("pvc://")?;
    let (claim, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_inside = path.split('/').all(|part| part != "..");
    (!claim.is_empty() && is_inside).then_some((claim, path.trim_matches('/')))
}

fn mount_claim(pod: &mut PodSpec, volume: &str, claim: &str, path: &str, storage: &Storage) {
    let source = PersistentVolumeClaimVolumeSource {
        claim_name: claim.to_owned(),
        read_only: Some(true),
    };
    pod.volumes.get_or_insert_default().push(Volume {
        name: volume.to_owned(),
        persistent_volume_claim: Some(source),
        ..Volume::default()
    });
    let named = pod
        .containers
        .iter()
        .position(|c| c.name == Workload::CONTAINER);
    if let Some(container) = pod.containers.get_mut(named.unwrap_or(0)) {
        container
            .volume_mounts
            .get_or_insert_default()
            .push(VolumeMount {
                name: volume.to_owned(),
                mount_path: storage.mount_path.to_string(),
                sub_path: (!path.is_empty()).then(|| path.to_owned()),
                read_only: Some(true),
                ..VolumeMount::default()
            });
    }
}

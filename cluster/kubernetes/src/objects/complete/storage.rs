//! Provision of a model's files in the pods of its revision.

mod fetched;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount};
use weir_cluster::{ClusterError, Storage, Workload};

use self::source::Source;
use super::path::relocate_in;
use super::weir_runtime;
use crate::Options;
use crate::stored::StoredRevision;

/// KServe's annotation: `"false"` lets the server write to its model's files.
const READ_ONLY: &str = "storage.kserve.io/readonly";

/// Checks that a model's storage URI is supported on Kubernetes.
///
/// # Errors
/// A clause that names the URI and says what to write instead.
pub fn check_storage_uri(uri: &str) -> Result<(), String> {
    Source::of(uri).map(drop)
}

/// Provides a revision's models where its container expects them, read-only by default.
///
/// # Errors
/// [`ClusterError::Refused`], naming the URI, when its storage is not supported or another volume has the mount path.
pub(super) fn provide(
    stored: &StoredRevision,
    annotations: &BTreeMap<String, String>,
    pod: &mut PodSpec,
    options: &Options,
) -> Result<(), ClusterError> {
    let may_write = annotations.get(READ_ONLY).is_some_and(|v| v.trim().eq_ignore_ascii_case("false"));
    for (number, storage) in stored.storage.iter().enumerate() {
        let refused = |because| ClusterError::refused(&stored.revision, because);
        let source = Source::of(&storage.uri).map_err(refused)?;
        let mount = ModelMount { number, storage, read_only: !may_write };
        mount.fill(source, pod, options).map_err(refused)?;
    }
    Ok(())
}

/// Directory of the serving container that receives a model.
struct ModelMount<'a> {
    number: usize,
    storage: &'a Storage,
    read_only: bool,
}

impl ModelMount<'_> {
    /// Provides the files. The error is a clause that says why that is impossible.
    fn fill(&self, source: Source<'_>, pod: &mut PodSpec, options: &Options) -> Result<(), String> {
        match source {
            Source::Claim { claim, path } => {
                self.mount(pod, &self.name("kserve-pvc-source"), Some(path))?;
                pod.volumes.get_or_insert_default().push(self.claim_volume(claim));
            }
            Source::InContainer { path } => {
                let path = path.trim_end_matches('/');
                let container = serving(pod)?;
                relocate_in(container, self.path(), path);
            }
            Source::Remote { uri } => {
                let volume = self.name("kserve-provision-location");
                self.mount(pod, &volume, None)?;
                let initializer = self.name("storage-initializer");
                fetched::add(pod, &initializer, &volume, (uri, self.path()), options);
                self.name_fetched_file(serving(pod)?, uri);
            }
        }
        Ok(())
    }

    /// Names a fetched file to Weir's runtime, which loads a single file whatever its name, but needs the file's path.
    fn name_fetched_file(&self, container: &mut Container, uri: &str) {
        if let Some(file) = weir_fetch::plain_file(uri)
            && weir_runtime::is_ours(container)
        {
            relocate_in(container, self.path(), &format!("{}/{file}", self.path()));
        }
    }

    fn path(&self) -> &str {
        self.storage.mount_path.trim_end_matches('/')
    }

    /// Returns KServe's name for the first model, which other tools expect, and a numbered name for each further one.
    fn name(&self, name: &str) -> String {
        match self.number {
            0 => name.to_owned(),
            number => format!("{name}-{number}"),
        }
    }

    fn claim_volume(&self, claim: &str) -> Volume {
        Volume {
            name: self.name("kserve-pvc-source"),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: claim.to_owned(),
                read_only: Some(self.read_only),
            }),
            ..Volume::default()
        }
    }

    fn mount(&self, pod: &mut PodSpec, volume: &str, path: Option<&str>) -> Result<(), String> {
        let container = serving(pod)?;
        let mounts = container.volume_mounts.get_or_insert_default();
        let is_taken = |mount: &VolumeMount| mount.mount_path.trim_end_matches('/') == self.path();
        if mounts.iter().any(is_taken) {
            return Err(format!(
                "the container mounts another volume at {}, where {} goes: remove that volumeMount or the storageUri",
                self.path(),
                weir_fetch::without_secrets(&self.storage.uri)
            ));
        }
        mounts.push(VolumeMount {
            name: volume.to_owned(),
            mount_path: self.storage.mount_path.to_string(),
            sub_path: path.filter(|path| !path.is_empty()).map(str::to_owned),
            read_only: Some(self.read_only),
            ..VolumeMount::default()
        });
        Ok(())
    }
}

/// Returns the container that serves.
fn serving(pod: &mut PodSpec) -> Result<&mut Container, String> {
    let named = |container: &Container| container.name == Workload::CONTAINER;
    let index = pod.containers.iter().position(named).unwrap_or(0);
    let found = pod.containers.get_mut(index);
    found.ok_or_else(|| "the pod has no container".to_owned())
}

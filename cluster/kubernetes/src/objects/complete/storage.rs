//! Provision of a model's files in the pods of its revision.

mod credentials;
mod fetched;
mod node_cache;
mod source;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, ImageVolumeSource, PersistentVolumeClaimVolumeSource, PodSpec, Volume, VolumeMount,
};
use weir_cluster::{ClusterError, PodTemplate, Storage, relocate};
use weir_crds::StorageContainer;

pub(crate) use self::credentials::{CREDENTIALS, ModelAccount};
use self::fetched::Fetch;
pub(crate) use self::fetched::{DISK_REQUEST, PROGRESS_PORT, PROGRESS_VARIABLE};
use self::source::Source;
pub(crate) use self::source::is_fetched;
use super::weir_runtime;
use crate::Options;
use crate::stored::StoredRevision;

/// KServe's name of the volume for fetched files.
const FETCHED: &str = "kserve-provision-location";

/// KServe's annotation: `"false"` lets the server write to its model's files.
const READ_ONLY: &str = "storage.kserve.io/readonly";

/// Annotation with the name of the ClusterStorageContainer that the predictor names.
const STORAGE_CONTAINER: &str = "internal.serving.kserve.io/storage-container-name";

/// KServe's annotation with the Secret that is used in place of those of the ServiceAccount.
const SECRET_NAME: &str = "serving.kserve.io/storageSecretName";

/// KServe's annotation of a pod whose model is in a store that `model.storage` names.
const STORAGE_SPEC: &str = "internal.serving.kserve.io/storage-spec";

/// Directory of an image with the model, as in KServe.
const IN_IMAGE: &str = "models";

/// Part of the API server's message about a volume whose source it does not know and has dropped.
const NO_VOLUME_TYPE: &str = "must specify a volume type";

/// Checks that a model's storage URI is supported on a cluster with these storage containers.
///
/// # Errors
/// A clause that names the URI and says what to write instead.
pub fn check_storage_uri(uri: &str, containers: &[StorageContainer]) -> Result<(), String> {
    let is_taken = || is_fetched(uri) && containers.iter().any(|container| container.supports(uri));
    match Source::of(uri) {
        Err(because) if !is_taken() => Err(because),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Returns why the API server does not take a pod with an image volume, if that is the cause of its refusal.
pub(crate) fn without_image_volumes(storage: &[Storage], refusal: &str) -> Option<String> {
    let mut images = storage.iter().filter(|model| model.uri.starts_with("oci+native://"));
    let image = images.next().filter(|_| refusal.contains(NO_VOLUME_TYPE))?;
    Some(format!(
        "this Kubernetes has no image volumes, which {} needs: write oci:// in place of oci+native://, or use \
         Kubernetes 1.35, or 1.33 with the feature gate ImageVolume",
        weir_fetch::without_secrets(&image.uri)
    ))
}

/// Properties of the cluster and the service that shape the fetches of a pod's models.
#[derive(Clone, Copy)]
pub(super) struct FetchContext<'a> {
    pub(super) options: &'a Options,
    /// Annotations of the pod.
    pub(super) annotations: &'a BTreeMap<String, String>,
    pub(super) account: &'a ModelAccount,
    pub(super) containers: &'a [StorageContainer],
}

/// Provides a revision's models where its container expects them, read-only by default.
///
/// # Errors
/// [`ClusterError::Refused`], naming the URI, when its storage is not supported or another volume has the mount path.
pub(super) fn provide(
    stored: &StoredRevision,
    pod: &mut PodSpec,
    context: &FetchContext<'_>,
) -> Result<(), ClusterError> {
    let may_write = context.annotations.get(READ_ONLY).is_some_and(|v| v.trim().eq_ignore_ascii_case("false"));
    let mut fetches = Vec::new();
    for (number, storage) in stored.storage.iter().enumerate() {
        let mount = ModelMount { number, storage, all: &stored.storage, read_only: !may_write };
        let by = context.container_for(&storage.uri);
        let filled = by.and_then(|by| {
            let source = if by.is_some() { Source::Remote { uri: &storage.uri } } else { Source::of(&storage.uri)? };
            Ok(mount.fill(source, pod)?.map(|fetch| Fetch { by, ..fetch }))
        });
        fetches.extend(filled.map_err(|because| ClusterError::refused(&stored.revision, because))?);
    }
    // All fetches get the variables of the serving container as its user wrote them.
    let serving = serving(pod).ok().and_then(|container| container.env.clone()).unwrap_or_default();
    for (at, fetch) in fetches.iter().enumerate() {
        fetched::add(pod, at, fetch, &serving, context);
    }
    Ok(())
}

impl<'a> FetchContext<'a> {
    /// Returns the container of the cluster that fetches a URI: the one that the predictor names, or else the first one
    /// whose formats fit. None for Weir's own, and for files that no container fetches.
    ///
    /// # Errors
    /// A clause that names a missing container.
    fn container_for(&self, uri: &str) -> Result<Option<&'a StorageContainer>, String> {
        let mut all = self.containers.iter();
        if !is_fetched(uri) {
            return Ok(None);
        }
        match self.annotations.get(STORAGE_CONTAINER) {
            None => Ok(all.find(|container| container.supports(uri))),
            Some(name) => all.find(|container| container.name == *name).map(Some).ok_or_else(|| {
                format!(
                    "storageContainerName: there is no enabled ClusterStorageContainer {name:?} for init containers"
                )
            }),
        }
    }
}

/// Directory of the serving container that receives a model.
struct ModelMount<'a> {
    number: usize,
    storage: &'a Storage,
    /// All models of the pod.
    all: &'a [Storage],
    read_only: bool,
}

impl<'a> ModelMount<'a> {
    /// Provides the files, or returns the fetch that provides them. The error is a clause that says why that is
    /// impossible.
    fn fill(&self, source: Source<'a>, pod: &mut PodSpec) -> Result<Option<Fetch<'a>>, String> {
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
            Source::Image { reference } => {
                let volume = self.name("kserve-image-source");
                let image = ImageVolumeSource { reference: Some(reference.to_owned()), pull_policy: None };
                let only_read = Self { read_only: true, ..*self };
                only_read.mount(pod, &volume, Some(IN_IMAGE))?;
                let volumes = pod.volumes.get_or_insert_default();
                volumes.push(Volume { name: volume, image: Some(image), ..Volume::default() });
            }
            Source::Remote { uri } => {
                let volume = self.fetch_volume(pod)?;
                self.name_fetched_file(serving(pod)?, uri);
                let name = self.name("storage-initializer");
                return Ok(Some(Fetch { name, uri, directory: self.path(), volume, by: None }));
            }
        }
        Ok(None)
    }

    /// Returns the volume for fetched files with its mount path: that of another model whose directory contains this
    /// one, or a new one. A directory inside a read-only mount could not be mounted.
    fn fetch_volume(&self, pod: &mut PodSpec) -> Result<(String, &'a str), String> {
        if let Some(outer) = self.outer() {
            return Ok((outer.name(FETCHED), outer.path()));
        }
        let name = self.name(FETCHED);
        self.mount(pod, &name, None)?;
        let directory = Some(EmptyDirVolumeSource::default());
        let volumes = pod.volumes.get_or_insert_default();
        volumes.push(Volume { name: name.clone(), empty_dir: directory, ..Volume::default() });
        Ok((name, self.path()))
    }

    /// Returns the outermost fetched model whose directory contains this one's.
    fn outer(&self) -> Option<Self> {
        let all = self.all.iter().enumerate();
        let others = all.map(|(number, storage)| Self { number, storage, ..*self });
        let contains = |other: &Self| {
            let below = self.path().strip_prefix(other.path());
            is_fetched(&other.storage.uri) && below.is_some_and(|below| below.starts_with('/'))
        };
        others.filter(contains).min_by_key(|other| other.path().len())
    }

    /// Names a fetched file to Weir's runtime, which loads a single file whatever its name, but needs the file's path.
    fn name_fetched_file(&self, container: &mut Container, uri: &str) {
        if let Some(file) = weir_fetch::plain_file(uri)
            && weir_runtime::is_ours(container)
        {
            relocate_in(container, self.path(), &format!("{}/{file}", self.path()));
        }
    }

    fn path(&self) -> &'a str {
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
    PodTemplate::serving_mut(&mut pod.containers).ok_or_else(|| "the pod has no container".to_owned())
}

/// Replaces a path in a container's command, arguments and variables.
fn relocate_in(container: &mut Container, from: &str, to: &str) {
    let words = container.command.iter_mut().chain(&mut container.args);
    for word in words.flatten() {
        *word = relocate(word, from, to);
    }
    let variables = container.env.iter_mut().flatten();
    for value in variables.filter_map(|variable| variable.value.as_mut()) {
        *value = relocate(value, from, to);
    }
}

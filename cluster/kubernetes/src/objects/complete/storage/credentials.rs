//! Credentials for the init containers that fetch models. Weir reads no Secret: the kubelet mounts those that the
//! ServiceAccount names, and the fetch recognises them by their keys.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    EnvFromSource, LocalObjectReference, PodSpec, SecretEnvSource, SecretVolumeSource, ServiceAccount, Volume,
    VolumeMount,
};

use super::{FetchContext, SECRET_NAME, STORAGE_SPEC};

/// Directory of an init container with one directory for each Secret.
pub(crate) const CREDENTIALS: &str = "/var/run/weir/credentials";

/// Parts of a ServiceAccount that give access to models.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModelAccount {
    /// Names of the Secrets in `secrets`.
    secrets: Vec<String>,
    /// Names of the Secrets in `imagePullSecrets`.
    registry_secrets: Vec<String>,
    /// Annotations of the ServiceAccount, among which are KServe's about S3.
    pub(super) annotations: BTreeMap<String, String>,
}

impl ModelAccount {
    /// Returns what a ServiceAccount says about models.
    pub(crate) fn of(account: &ServiceAccount) -> Self {
        let secrets = account.secrets.iter().flatten();
        Self {
            secrets: secrets.filter_map(|secret| secret.name.clone()).collect(),
            registry_secrets: named(account.image_pull_secrets.as_deref()),
            annotations: account.metadata.annotations.clone().unwrap_or_default(),
        }
    }
}

/// Returns the names of the Secrets for the fetch of a URI, each once, in the order in which they are tried.
pub(super) fn secrets(uri: &str, pod: &PodSpec, fetch: &FetchContext<'_>) -> Vec<String> {
    let names_store = fetch.annotations.contains_key(STORAGE_SPEC);
    let of_service = fetch.annotations.get(SECRET_NAME).filter(|_| !names_store);
    let mut all = match of_service {
        Some(name) => vec![name.clone()],
        None => fetch.account.secrets.clone(),
    };
    if uri.starts_with("oci://") || uri.starts_with("oci+fetch://") {
        all.extend(named(pod.image_pull_secrets.as_deref()));
        all.extend(fetch.account.registry_secrets.iter().cloned());
    }
    let mut each = Vec::new();
    for name in all {
        if !each.contains(&name) {
            each.push(name);
        }
    }
    each
}

/// Adds a volume for each Secret, unless another fetch of the pod has added it, and returns the mounts. A Secret that
/// does not exist appears as an empty directory.
pub(super) fn mount(pod: &mut PodSpec, secrets: &[String]) -> Vec<VolumeMount> {
    let volumes = pod.volumes.get_or_insert_default();
    let mounts = secrets.iter().map(|secret| {
        let volume = volume_of(volumes, secret);
        VolumeMount {
            name: volume,
            mount_path: format!("{CREDENTIALS}/{secret}"),
            read_only: Some(true),
            ..VolumeMount::default()
        }
    });
    mounts.collect()
}

/// Returns the Secrets as variables, for containers that read no files. Keys that cannot be variables are left out by
/// the kubelet.
pub(super) fn as_variables(secrets: &[String]) -> Vec<EnvFromSource> {
    let source = |name: &String| EnvFromSource {
        secret_ref: Some(SecretEnvSource { name: name.clone(), optional: Some(true) }),
        ..EnvFromSource::default()
    };
    secrets.iter().map(source).collect()
}

/// Name of a Secret's volume without its number: a Secret's name may be too long for a volume.
const VOLUME: &str = "weir-credentials";

fn volume_of(volumes: &mut Vec<Volume>, secret: &str) -> String {
    let mut ours = volumes.iter().filter(|volume| volume.name.starts_with(VOLUME));
    let is_of = |volume: &&Volume| volume.secret.as_ref().is_some_and(|s| s.secret_name.as_deref() == Some(secret));
    if let Some(known) = ours.clone().find(is_of) {
        return known.name.clone();
    }
    let name = format!("{VOLUME}-{}", ours.by_ref().count());
    volumes.push(Volume {
        name: name.clone(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(secret.to_owned()),
            optional: Some(true),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    });
    name
}

fn named(references: Option<&[LocalObjectReference]>) -> Vec<String> {
    let references = references.into_iter().flatten().map(|reference| reference.name.clone());
    references.filter(|name| !name.is_empty()).collect()
}

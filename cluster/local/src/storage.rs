//! Where a model's files lie on this machine.

#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use weir_cluster::{ClusterError, Storage};

/// A storage on this machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) uri: String,
    /// Where a container would find it.
    pub(crate) mount_path: String,
    /// Where it is, or will be once it was downloaded.
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
}

/// Where a model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It is on this machine, or should be.
    Here,
    /// It is downloaded before the first replica starts.
    Elsewhere,
}

impl Model {
    /// Finds a storage: `pvc://NAME/path` is `NAME/path` beside the manifest, `file:///path` is itself,
    /// `http(s)://` will be in a directory of its own in `models`. Whether it is there is not looked at.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] for other kinds of storage, a path that leaves its claim, and a claim
    /// without a manifest.
    pub(crate) fn of(storage: &Storage, models: &Path) -> Result<Self, ClusterError> {
        let refused = |because: &str| Err(ClusterError::refused(&storage.uri, because));
        let Some((scheme, rest)) = storage.uri.split_once("://") else {
            return refused("it is no address such as pvc://NAME/path");
        };
        let (path, origin) = match scheme {
            "pvc" => (claim(storage, rest)?, Origin::Here),
            "file" if Path::new(rest).is_absolute() => (PathBuf::from(rest), Origin::Here),
            "file" => return refused("the path of a file:// address begins with a third slash"),
            "http" | "https" => (models.join(hash(&storage.uri)), Origin::Elsewhere),
            _ => {
                return refused(
                    "without Kubernetes, models come from pvc://, file:// and http(s)://",
                );
            }
        };
        Ok(Self {
            uri: storage.uri.to_string(),
            mount_path: storage.mount_path.trim_end_matches('/').to_owned(),
            path,
            origin,
        })
    }
}

/// A name for an address that every file system takes: the first 16 digits of its SHA-256.
fn hash(uri: &str) -> String {
    let digits = Sha256::digest(uri).into_iter().take(8);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

fn claim(storage: &Storage, rest: &str) -> Result<PathBuf, ClusterError> {
    let refused = |because: &str| Err(ClusterError::refused(&storage.uri, because));
    let path = Path::new(rest);
    let mut parts = path.components();
    if !matches!(parts.next(), Some(Component::Normal(_))) {
        return refused("it names no claim");
    }
    if !parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return refused("its path leaves the claim");
    }
    match &storage.claims {
        Some(claims) => Ok(claims.join(path)),
        None => refused("claims lie beside a manifest, and there is none"),
    }
}

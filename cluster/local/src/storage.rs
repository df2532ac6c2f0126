//! Where a model's files lie on this machine.

#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use weir_cluster::{ClusterError, Storage};

/// The file or directory that a storage names: `pvc://NAME/path` is `NAME/path` beside the manifest,
/// `file:///path` is itself. Whether it is there is not looked at.
///
/// # Errors
/// [`ClusterError::Refused`] for other kinds of storage, a path that leaves its claim, and a claim
/// without a manifest.
pub fn directory(storage: &Storage) -> Result<PathBuf, ClusterError> {
    let refused = |because: &str| Err(ClusterError::refused(&storage.uri, because));
    let Some((scheme, rest)) = storage.uri.split_once("://") else {
        return refused("it is no address such as pvc://NAME/path");
    };
    match scheme {
        "pvc" => claim(storage, rest),
        "file" if Path::new(rest).is_absolute() => Ok(PathBuf::from(rest)),
        "file" => refused("the path of a file:// address begins with a third slash"),
        _ => refused("without Kubernetes, models come from pvc:// and file://"),
    }
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

//! Locations of models on this machine.

pub(crate) mod cache;
#[cfg(test)]
mod tests;

use std::path::{Component, Path, PathBuf};

use sha2::{Digest, Sha256};
use weir_cluster::{ClusterError, Storage};
use weir_fetch::{FetchError, without_secrets};

/// The files of one model on this machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ModelFiles {
    pub(crate) uri: String,
    /// Path at which a container would find the files.
    pub(crate) mount_path: String,
    /// Path on this machine, where the files are or will be downloaded.
    pub(crate) path: PathBuf,
    /// Path that Weir's runtime gets. For a download that is not an archive this is the file itself, whatever its name.
    pub(crate) repository: PathBuf,
    pub(crate) origin: Origin,
}

/// Origin of a model's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A path on this machine.
    Local,
    /// A URI, downloaded before the first replica starts.
    Remote,
}

impl ModelFiles {
    /// Resolves a storage URI without reading any file: `pvc://NAME/path` is `NAME/path` next to the manifest,
    /// `file:///path` is that path, and a remote URI gets its own directory in `models`.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] for a URI that cannot be fetched, a path that leaves its claim, and a claim without a
    /// manifest.
    pub(crate) fn of(storage: &Storage, models: &Path) -> Result<Self, ClusterError> {
        let shown = without_secrets(storage.plain_uri());
        let refused = |reason: &str| Err(ClusterError::refused(&shown, reason));
        let Some((scheme, rest)) = storage.plain_uri().split_once("://") else {
            return refused("not a storage URI: write one such as pvc://NAME/path");
        };
        let (path, origin) = match scheme {
            "pvc" => (claim(storage, rest)?, Origin::Local),
            "file" if Path::new(rest).is_absolute() => (PathBuf::from(rest), Origin::Local),
            scheme if Storage::OF_CONFIG.strip_suffix("://") == Some(scheme) => {
                return refused(
                    "`weir up` reads no Secret: set storage.parameters.type and bucket, or write a storageUri instead",
                );
            }
            "file" => return refused("not an absolute path: write file:///abs/path"),
            _ => (download(storage, models)?, Origin::Remote),
        };
        let repository = match origin {
            Origin::Local => path.clone(),
            Origin::Remote => within(&path, &storage.uri),
        };
        Ok(Self {
            repository,
            uri: storage.plain_uri().to_owned(),
            mount_path: storage.mount_path.trim_end_matches('/').to_owned(),
            path,
            origin,
        })
    }
}

impl ModelFiles {
    /// Returns true if the files are local and exist.
    pub(crate) fn is_here(&self) -> bool {
        self.origin == Origin::Local && self.path.exists()
    }

    /// Returns a sentence about missing local files; `None` if they exist or can be downloaded.
    pub(crate) fn missing(&self) -> Option<String> {
        match self.origin {
            Origin::Local if !self.path.exists() => {
                Some(format!("{} is missing: put the files of {} there", self.path.display(), self.uri))
            }
            Origin::Local | Origin::Remote => None,
        }
    }
}

/// Depth at which model files lie in a directory: MODEL/VERSION/FILE.
const DEPTH: u32 = 3;

/// Maximum number of directory entries examined: more than a model has, and read within a few milliseconds.
const MAX_ENTRIES: usize = 10_000;

impl ModelFiles {
    /// Returns a sentence about a local directory that contains no model for Weir's runtime, whatever its other
    /// arguments; `None` if it may contain one.
    pub(crate) fn without_model(&self) -> Option<String> {
        let is_empty = self.origin == Origin::Local
            && self.path.is_dir()
            && !may_hold_model(&self.path, DEPTH, &mut { MAX_ENTRIES });
        is_empty.then(|| {
            format!(
                "no model in {}: it has no model.pt2, model.pt, model.onnx or config.pbtxt; give the model's file one of \
                 these names, or point storageUri at the file itself",
                self.path.display()
            )
        })
    }
}

/// Returns true if a file has a name by which the runtime finds models. A directory that cannot be read, or is too
/// large to examine, may contain one.
fn may_hold_model(directory: &Path, depth: u32, budget: &mut usize) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return true;
    };
    for entry in entries.filter_map(Result::ok) {
        let path = entry.path();
        *budget = budget.saturating_sub(1);
        let is_named = path
            .file_name()
            .is_some_and(|name| ["model.pt", "model.pt2", "model.onnx"].iter().any(|model| name == *model))
            || path.extension().is_some_and(|end| end == "pbtxt");
        let is_within = || depth > 1 && path.is_dir();
        if *budget == 0 || is_named || (is_within() && may_hold_model(&path, depth - 1, budget)) {
            return true;
        }
    }
    false
}

/// Returns the downloaded file in its directory, or the directory of an extracted archive.
fn within(directory: &Path, uri: &str) -> PathBuf {
    match weir_fetch::plain_file(uri) {
        Some(file) => directory.join(file),
        None => directory.to_owned(),
    }
}

/// Returns a directory name for a URI that every file system accepts: the first 16 digits of its SHA-256.
fn hash(uri: &str) -> String {
    let digits = Sha256::digest(uri).into_iter().take(8);
    digits.map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the directory of a download, after checking the URI.
fn download(storage: &Storage, models: &Path) -> Result<PathBuf, ClusterError> {
    weir_fetch::check_uri(&storage.uri).map_err(|error| match error {
        FetchError::Address { uri, reason } => ClusterError::refused(uri, reason),
        error => ClusterError::refused(without_secrets(&storage.uri), error.to_string()),
    })?;
    Ok(models.join(hash(&storage.uri)))
}

fn claim(storage: &Storage, rest: &str) -> Result<PathBuf, ClusterError> {
    let refused = |reason: &str| Err(ClusterError::refused(storage.plain_uri(), reason));
    let path = Path::new(rest);
    let mut parts = path.components();
    if !matches!(parts.next(), Some(Component::Normal(_))) {
        return refused("names no claim: write pvc://NAME/path");
    }
    if !parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return refused("leads out of its claim: remove `..` from the path");
    }
    match &storage.claims {
        Some(claims) => Ok(claims.join(path)),
        None => refused("a claim is a folder next to the manifest, and there is no manifest"),
    }
}

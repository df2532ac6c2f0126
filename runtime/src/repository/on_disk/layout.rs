//! Detects the layout of models on disk. The order of detection is a contract: first a file; then a directory with
//! `config.pbtxt` or numeric children; then a directory with `model.pt`, `model.pt2` or `model.onnx`;
//! otherwise a directory of models. A repository path whose numeric children are models is a directory of models too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::repository::on_disk::names;

/// Name of the configuration file in a model's directory.
pub(in crate::repository) const CONFIG_FILE: &str = "config.pbtxt";

/// Name of the directory with a model's alternative configurations (`--model-config-name`).
pub(in crate::repository) const CONFIGS: &str = "configs";

/// Name of the file with an example request, next to the model file or in the model's directory.
pub(crate) const EXAMPLE_FILE: &str = "example.json";

/// Name of the only file in a model directory without versions and configuration.
pub(in crate::repository) const BARE_FILE: &str = "model.pt";

/// Name of a program of torch.export, which is used where [`BARE_FILE`] is missing.
pub(in crate::repository) const EXPORTED_FILE: &str = "model.pt2";

/// Name of an ONNX model, which is used where both others are missing.
pub(in crate::repository) const ONNX_FILE: &str = "model.onnx";

/// Contents of a repository path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repository) enum PathContents {
    Model(Layout),
    /// A directory that is not a model itself and may hold models.
    Directory,
}

/// Layout of one model's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repository) enum Layout {
    /// The path is the model file, as version 1.
    File,
    /// Triton's layout: a configuration, a directory per version, or both.
    Versioned,
    /// A directory with `model.pt`, `model.pt2` or `model.onnx`, as version 1.
    Bare,
}

/// Detects the contents of a path. Symbolic links are followed.
///
/// # Errors
/// A sentence that names the path and the reason why it cannot be read.
pub(in crate::repository) fn detect(path: &Path) -> Result<PathContents, String> {
    let metadata = fs::metadata(path).map_err(|error| unreadable(path, &error))?;
    if metadata.is_file() {
        return Ok(PathContents::Model(Layout::File));
    }
    let children = children(path)?;
    let holds_file = |name: &str| children.iter().any(|child| child.is(name) && child.path.is_file());
    let has_config = children.iter().any(|child| child.is(CONFIG_FILE));
    if has_config || children.iter().any(Child::is_version) {
        Ok(PathContents::Model(Layout::Versioned))
    } else if [BARE_FILE, EXPORTED_FILE, ONNX_FILE].into_iter().any(holds_file) {
        Ok(PathContents::Model(Layout::Bare))
    } else {
        Ok(PathContents::Directory)
    }
}

/// Detects the contents of a repository path, like [`detect`]. Additionally recognises a directory of models in which a
/// model's name is a number, so that it looks like the directory of one model.
///
/// # Errors
/// The same as for [`detect`].
pub(in crate::repository) fn detect_repository(path: &Path) -> Result<PathContents, String> {
    let found = detect(path)?;
    if found != PathContents::Model(Layout::Versioned) {
        return Ok(found);
    }
    let children = children(path)?;
    let is_one_model = children.iter().any(|child| child.is(CONFIG_FILE));
    if !is_one_model && children.iter().any(Child::is_no_part_of_a_model) {
        return Ok(PathContents::Directory);
    }
    Ok(found)
}

/// Returns the version directories in a model's directory, in ascending order.
///
/// # Errors
/// The same as for [`detect`].
pub(in crate::repository) fn version_dirs(model: &Path) -> Result<Vec<(u64, PathBuf)>, String> {
    let numbered = |child: Child| child.version().map(|version| (version, child.path));
    let mut found: Vec<_> = children(model)?.into_iter().filter_map(numbered).collect();
    found.sort_unstable();
    Ok(found)
}

/// One entry of a directory.
#[derive(Clone, Debug)]
pub(in crate::repository) struct Child {
    /// Name of the entry; `None` if it is not UTF-8, because no client can request such a name.
    pub name: Option<String>,
    pub path: PathBuf,
}

impl Child {
    pub(in crate::repository) fn is(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    pub(in crate::repository) fn is_version(&self) -> bool {
        self.version().is_some()
    }

    /// True for names that start with a dot. Programs that copy files first write to such a name and then rename it,
    /// and Kubernetes volumes keep the targets of their links under one.
    pub(in crate::repository) fn is_hidden(&self) -> bool {
        self.name.as_deref().is_some_and(|name| name.starts_with('.'))
    }

    /// True for a directory that cannot be inside a model's directory. If its name is a number, it has version
    /// directories and no model file; otherwise it has a configuration and is not named `configs`.
    fn is_no_part_of_a_model(&self) -> bool {
        if self.is_hidden() || !self.path.is_dir() {
            return false;
        }
        // A directory that cannot be read is reported when its model is inspected.
        let within = children(&self.path).unwrap_or_default();
        let has = |name| within.iter().any(|child| child.is(name));
        match self.version() {
            Some(_) => {
                within.iter().any(Self::is_version) && ![BARE_FILE, EXPORTED_FILE, ONNX_FILE].into_iter().any(has)
            }
            None => has(CONFIG_FILE) && !self.is(CONFIGS),
        }
    }

    fn version(&self) -> Option<u64> {
        let version = names::version(self.name.as_deref()?)?;
        self.path.is_dir().then_some(version)
    }
}

/// Returns the path of the model file with this name. In place of a missing `model.pt`, `model.pt2` is taken.
pub(in crate::repository) fn model_file(directory: &Path, name: &str) -> PathBuf {
    let (usual, exported) = (directory.join(name), directory.join(EXPORTED_FILE));
    if name == BARE_FILE && !usual.exists() && exported.is_file() { exported } else { usual }
}

/// Returns the path of the model file in a directory without a configuration: the first of `model.pt`, `model.pt2` and
/// `model.onnx` that exists, otherwise `model.pt`.
pub(in crate::repository) fn bare_file(directory: &Path) -> PathBuf {
    let (torch, onnx) = (model_file(directory, BARE_FILE), directory.join(ONNX_FILE));
    if !torch.exists() && onnx.is_file() { onnx } else { torch }
}

/// Returns the entries of a directory, in the order of their paths.
///
/// # Errors
/// The same as for [`detect`].
pub(in crate::repository) fn children(directory: &Path) -> Result<Vec<Child>, String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|error| unreadable(directory, &error))? {
        let entry = entry.map_err(|error| unreadable(directory, &error))?;
        found.push(Child { name: entry.file_name().into_string().ok(), path: entry.path() });
    }
    found.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

/// Returns the error text for a path that cannot be read.
pub(in crate::repository) fn unreadable(path: &Path, error: &io::Error) -> String {
    format!("cannot read '{}': {error}", path.display())
}

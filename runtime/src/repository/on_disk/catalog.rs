//! The models in the repository paths, by the names that clients use.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::repository::on_disk::layout::{self, Child, Layout, PathContents};
use crate::repository::on_disk::loose_files::{self, LooseFile};
use crate::repository::on_disk::options::{AutoComplete, ScanOptions};
use crate::repository::{on_disk::config_file, on_disk::names, on_disk::no_model};

/// A model in a repository path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repository) struct CatalogEntry {
    /// Name of the model in responses and in the index.
    pub name: String,
    /// A second name that the model answers to, if it has one.
    pub alias: Option<String>,
    /// Location of the model's files, or the reason why they cannot be used.
    pub location: Result<ModelLocation, String>,
}

/// Path and layout of a model's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::repository) struct ModelLocation {
    /// The model's directory, or the file of [`Layout::File`].
    pub path: PathBuf,
    pub layout: Layout,
    pub naming: Naming,
}

/// The source of a model's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::repository) enum Naming {
    /// The directory; a configuration with another name is refused, as in Triton.
    Directory,
    /// `--model-name` or the configuration; the path may be a mount point with any name.
    Free,
}

pub(in crate::repository) type Catalog = BTreeMap<String, CatalogEntry>;

/// Lists the models in all repository paths.
///
/// # Errors
/// If a path cannot be read. The error of a single model is in its [`CatalogEntry::location`].
pub(in crate::repository) fn list(options: &ScanOptions) -> Result<Catalog, String> {
    let mut catalog = Catalog::new();
    for path in &options.paths {
        match layout::detect_repository(path)? {
            PathContents::Model(layout) => add(&mut catalog, single(path, layout, options)?),
            PathContents::Directory => match only_file(path, options) {
                Some(file) => add(&mut catalog, single(&file, Layout::File, options)?),
                None => list_directory(&mut catalog, path, options)?,
            },
        }
    }
    apply_model_name(&mut catalog, options);
    if let (Some(example), 2..) = (&options.example, catalog.len()) {
        return Err(format!(
            "--example {} is for one model, and the repository has {}: put an example.json beside each model instead",
            example.display(),
            catalog.len()
        ));
    }
    Ok(catalog)
}

/// Checks that a model was found if `--model-name` is set or if a path holds anything. Without a model the server would
/// be ready but could not answer any request. An empty directory without `--model-name` is accepted.
///
/// # Errors
/// A sentence that lists what the path holds instead.
pub(in crate::repository) fn check_found(catalog: &Catalog, options: &ScanOptions) -> Result<(), String> {
    if !catalog.is_empty() {
        return Ok(());
    }
    match (&options.model_name, &options.paths[..]) {
        (Some(_), [path]) => Err(no_model::sentence(path)?),
        (Some(_) | None, paths) => {
            let mut found = paths.iter().filter_map(|path| no_model::unused(path));
            found.next().map_or(Ok(()), Err)
        }
    }
}

/// Name of the directory with the archives of TorchServe, beside its configuration.
const MODEL_STORE: &str = "model-store";

/// Returns the only file of a repository path if it looks like a model and `--model-name` says that the path holds one.
/// A download of one object of a bucket, whose name need not be `model.pt`, leaves such a directory. Storage made for
/// TorchServe has one archive in `model-store`.
fn only_file(path: &Path, options: &ScanOptions) -> Option<PathBuf> {
    let (Some(_), [_]) = (&options.model_name, &options.paths[..]) else {
        return None;
    };
    no_model::only_file(path).or_else(|| no_model::only_file(&path.join(MODEL_STORE)))
}

/// Returns the model of a repository path that is a model itself, not a directory of models. The model answers to
/// `--model-name` and to its own name.
fn single(path: &Path, layout: Layout, options: &ScanOptions) -> Result<CatalogEntry, String> {
    let own = config_file::declared_name(own_name(path, layout)?, (path, layout), options);
    let location = Ok(ModelLocation { path: path.to_owned(), layout, naming: Naming::Free });
    Ok(match &options.model_name {
        Some(name) if *name != own => CatalogEntry { name: name.clone(), alias: Some(own), location },
        Some(_) | None => CatalogEntry { name: own, alias: None, location },
    })
}

/// Returns the last component of the path, without its extension if it is a file.
fn own_name(path: &Path, layout: Layout) -> Result<String, String> {
    let resolved = match path.components().next_back() {
        Some(Component::Normal(_)) => path.to_owned(),
        // `.` and `..` are not names, so they are resolved.
        _ => path.canonicalize().map_err(|error| layout::unreadable(path, &error))?,
    };
    let name = match layout {
        Layout::File => resolved.file_stem(),
        Layout::Versioned | Layout::Bare => resolved.file_name(),
    };
    let name = name.and_then(|name| name.to_str());
    name.map(str::to_owned)
        .ok_or_else(|| format!("'{}' is not usable as a model name: set one with --model-name", path.display()))
}

fn list_directory(catalog: &mut Catalog, directory: &Path, options: &ScanOptions) -> Result<(), String> {
    let children = layout::children(directory)?;
    let mut found: Vec<CatalogEntry> = children.iter().filter_map(in_directory).collect();
    // The name of the only model cannot be the name of several files.
    if found.is_empty() && options.model_name.is_none() && options.auto_complete == AutoComplete::On {
        found = loose_files::models(directory)?.into_iter().map(of_file).collect();
    }
    for entry in found {
        add(catalog, entry);
    }
    Ok(())
}

fn of_file(LooseFile { name, path }: LooseFile) -> CatalogEntry {
    let location = path.map(|path| ModelLocation { path, layout: Layout::File, naming: Naming::Free });
    CatalogEntry { name, alias: None, location }
}

/// Returns the model at an entry of a directory of models, if there is one.
fn in_directory(child: &Child) -> Option<CatalogEntry> {
    if !child.path.is_dir() || is_housekeeping(child.name.as_deref()?) {
        return None;
    }
    let name = child.name.clone()?;
    if names::check(&name).is_err() {
        tracing::warn!(path = %child.path.display(), "ignored a directory whose name is not a valid model name");
        return None;
    }
    let location = match layout::detect(&child.path) {
        Ok(PathContents::Model(layout)) => {
            Ok(ModelLocation { path: child.path.clone(), layout, naming: Naming::Directory })
        }
        Ok(PathContents::Directory) => {
            log_ignored(&child.path);
            return None;
        }
        Err(reason) => Err(reason),
    };
    Some(CatalogEntry { name, alias: None, location })
}

fn log_ignored(path: &Path) {
    match no_model::misplaced(path) {
        Some(reason) => tracing::warn!(reason, "ignored a directory of the repository that is not a model"),
        None => {
            tracing::debug!(path = %path.display(), "ignored a directory without config.pbtxt, version or model.pt");
        }
    }
}

/// True for directories that are not models: version control and Kubernetes volumes use names that start with a dot,
/// and ext4 has an unreadable `lost+found`.
fn is_housekeeping(name: &str) -> bool {
    name.starts_with('.') || name == "lost+found"
}

fn add(catalog: &mut Catalog, found: CatalogEntry) {
    let Some(other) = catalog.get_mut(&found.name) else {
        catalog.insert(found.name.clone(), found);
        return;
    };
    let shown = |location: &Result<ModelLocation, String>| match location {
        Ok(location) => location.path.display().to_string(),
        Err(reason) => reason.clone(),
    };
    let (first, second) = (shown(&other.location), shown(&found.location));
    other.location = Err(format!("model '{}' is in more than one repository: '{first}' and '{second}'", found.name));
}

/// Lets the only model of a repository answer to `--model-name` too.
fn apply_model_name(catalog: &mut Catalog, options: &ScanOptions) {
    let Some(model_name) = options.model_name.as_deref() else {
        return;
    };
    let only = catalog.len() == 1;
    if let Some(entry) = catalog.values_mut().next()
        && only
        && entry.name != model_name
    {
        entry.alias = Some(model_name.to_owned());
    }
    let answers = |entry: &CatalogEntry| entry.name == model_name || entry.alias.as_deref() == Some(model_name);
    // An empty repository is reported later, when the server is ready.
    if !catalog.is_empty() && !catalog.values().any(answers) {
        tracing::warn!(
            models = catalog.len(),
            "--model-name {model_name} has no effect: the repository has several models, and none has this name"
        );
    }
}

//! The models at a path with the files that a server would load, for `weir-runtime inspect`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::inspect::{ConfigSource, Inspector};
use crate::backend::LoadError;
use crate::model::config::ModelConfig;
use crate::repository::on_disk::catalog::{self, CatalogEntry};
use crate::repository::on_disk::check;
use crate::repository::on_disk::options::ScanOptions;

/// A version of a model, with its configuration.
#[derive(Clone, Debug)]
pub(crate) struct FoundModel {
    pub(crate) name: String,
    /// The model file; the directory for backends that need no file.
    pub(crate) file: PathBuf,
    /// Directory that holds the model.
    pub(crate) directory: PathBuf,
    /// The configuration, or the reason why the model cannot be loaded.
    pub(crate) config: Result<Arc<ModelConfig>, String>,
}

/// Function that returns the usual name of a backend's model file.
pub(crate) type DefaultFilename<'a> = &'a dyn Fn(&str) -> Result<Option<&'static str>, LoadError>;

/// Returns every version that a server of this path would load.
///
/// # Errors
/// A sentence if the path cannot be read or holds no model.
pub(crate) fn found_models(path: &Path, default_filename: DefaultFilename<'_>) -> Result<Vec<FoundModel>, String> {
    let options = ScanOptions { paths: vec![path.to_owned()], ..check::options() };
    let catalog = catalog::list(&options)?;
    catalog::check_found(&catalog, &options)?;
    Ok(catalog.into_values().flat_map(|entry| versions(entry, &options, default_filename)).collect())
}

fn versions(entry: CatalogEntry, options: &ScanOptions, default_filename: DefaultFilename<'_>) -> Vec<FoundModel> {
    let name = entry.name;
    let failed = |path: PathBuf, reason: String| {
        vec![FoundModel { name: name.clone(), directory: path.clone(), file: path, config: Err(reason) }]
    };
    let location = match entry.location {
        Ok(location) => location,
        Err(reason) => return failed(PathBuf::from(&name), reason),
    };
    let inspector = Inspector { options, in_service: &BTreeSet::new(), default_filename };
    match inspector.inspect(&name, &location, ConfigSource::File) {
        Err(reason) => failed(location.path, reason),
        Ok(inspected) => {
            let version = |path: PathBuf| FoundModel {
                name: name.clone(),
                file: path,
                directory: inspected.dir.clone(),
                config: Ok(Arc::clone(&inspected.config)),
            };
            inspected.versions.fingerprints.into_values().map(|fingerprint| version(fingerprint.path)).collect()
        }
    }
}

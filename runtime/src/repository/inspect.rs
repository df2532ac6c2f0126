//! Inspects a model's directory: its configuration, and for each wanted version the path of the model file and a
//! fingerprint.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use weir_protocol::grpc::proto;

use super::changes::{FoundVersions, LoadOutcome};
use crate::backend::LoadError;
use crate::model::config::ModelConfig;
use crate::repository::on_disk::catalog::{ModelLocation, Naming};
use crate::repository::on_disk::config_file::{self, ReadConfig};
use crate::repository::on_disk::layout::{self, CONFIG_FILE, CONFIGS, EXAMPLE_FILE, Layout};
use crate::repository::on_disk::options::ScanOptions;
use crate::repository::on_disk::stamp::{ChangeDetection, DirectoryStamps, Stamp};

/// The version number of a model without version directories.
const ONLY_VERSION: u64 = 1;

/// An inspected model, ready to be loaded.
#[derive(Clone, Debug)]
pub(super) struct Inspected {
    pub config: Arc<ModelConfig>,
    /// Text of the configuration file, empty without a file; `None` for a configuration from a client.
    pub config_text: Option<Arc<str>>,
    /// The model's directory; for a single file, the directory that contains it.
    pub dir: PathBuf,
    /// The versions that the version policy selects, and versions in service whose files still exist.
    pub versions: FoundVersions<Fingerprint>,
    /// The directories of the model and of these versions.
    pub directory_stamps: DirectoryStamps,
    /// The uploaded files, which are deleted with the last version that was loaded from them; `None` for a model in the
    /// repository.
    pub uploaded: Option<Arc<TempDir>>,
}

/// Fingerprint of a version's configuration and files. A version with an equal fingerprint needs no reload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fingerprint {
    /// The model file, or the directory of the version.
    pub path: PathBuf,
    /// The configuration without its version policy, which selects versions but does not change them.
    config: Arc<proto::ModelConfig>,
    /// Files of the model's directory that all versions share: labels and warm-up data.
    shared: Arc<Stamp>,
    files: Stamp,
}

/// The stability of a model's files during a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stability {
    Stable,
    /// Files were added, removed or renamed, so the loaded state is unknown.
    Changed,
}

/// The source of a model's configuration.
#[derive(Clone, Debug)]
pub(super) enum ConfigSource {
    File,
    /// The client that requested the load, as JSON.
    Given(String),
}

pub(super) struct Inspector<'a> {
    pub options: &'a ScanOptions,
    /// Versions in service. They are inspected too, because they stay in service while a version that the policy
    /// selects does not load.
    pub in_service: &'a BTreeSet<u64>,
    /// Returns the usual name of the model file, by backend; see
    /// [`Launch::default_filename`](super::Launch::default_filename).
    pub default_filename: &'a dyn Fn(&str) -> Result<Option<&'static str>, LoadError>,
}

impl Inspected {
    /// Returns a load attempt of this version with its outcome.
    pub(super) fn attempt(
        &self,
        version: u64,
        outcome: LoadOutcome,
        stability: Stability,
    ) -> Option<(Option<Fingerprint>, LoadOutcome)> {
        let fingerprint = self.versions.fingerprints.get(&version)?;
        Some(match stability {
            Stability::Stable => (Some(fingerprint.clone()), outcome),
            Stability::Changed => (None, outcome),
        })
    }

    /// Returns the stability of the files since the inspection. Blocks on the file system.
    pub(super) fn stability(directory_stamps: &DirectoryStamps) -> Stability {
        if directory_stamps.are_unchanged() { Stability::Stable } else { Stability::Changed }
    }
}

impl Inspector<'_> {
    /// Inspects one model.
    ///
    /// # Errors
    /// A sentence for the index and the client.
    pub(super) fn inspect(
        &self,
        name: &str,
        location: &ModelLocation,
        source: ConfigSource,
    ) -> Result<Inspected, String> {
        let directory_stamps = directory_stamps(location)?;
        let (config, config_text) = self.config(name, location, source)?;
        let found = self.found_versions(location, &config)?;
        let wanted = config.version_policy.choose(&found.keys().copied().collect());
        if wanted.is_empty() {
            return Err(format!("at least one version must be available under the version policy of model '{name}'"));
        }
        let looked_at =
            found.iter().filter(|(version, _)| wanted.contains(version) || self.in_service.contains(version));
        let change_detection = self.options.change_detection;
        let fingerprints = fingerprints((location, change_detection), &config, looked_at)?;
        let versions = FoundVersions { fingerprints, wanted };
        let dir = directory(location).to_owned();
        Ok(Inspected { config: Arc::new(config), config_text, dir, versions, directory_stamps, uploaded: None })
    }

    /// Returns the configuration, with the text of its file.
    fn config(
        &self,
        name: &str,
        location: &ModelLocation,
        source: ConfigSource,
    ) -> Result<(ModelConfig, Option<Arc<str>>), String> {
        let files = (location.path.as_path(), location.layout);
        let (mut config, text) = match source {
            ConfigSource::Given(json) => (config_file::given(name, files, &json)?, None),
            ConfigSource::File => {
                let ReadConfig { config, text } = config_file::read(name, files, self.options)?;
                (config, Some(text.into()))
            }
        };
        match location.naming {
            Naming::Directory => config.check_directory(name).map_err(|error| error.to_string())?,
            Naming::Free => {
                name.clone_into(&mut config.name);
                name.clone_into(&mut config.proto.name);
            }
        }
        Ok((config, text))
    }

    /// Returns all versions in the directory, including those that are not wanted.
    fn found_versions(&self, location: &ModelLocation, config: &ModelConfig) -> Result<BTreeMap<u64, Files>, String> {
        // The look-up is made even if the file name is configured, because it fails for an unknown backend.
        let usual = (self.default_filename)(&config.backend).map_err(|error| error.to_string())?;
        let file = match location.layout {
            Layout::File => return Ok(only(location.path.clone())),
            Layout::Bare => return Ok(only(layout::bare_file(&location.path))),
            Layout::Versioned => config.default_model_filename.as_deref().or(usual),
        };
        let within = |directory: &Path| match file {
            Some(file) => layout::model_file(directory, file),
            None => directory.to_owned(),
        };
        let dirs = layout::version_dirs(&location.path)?;
        if dirs.is_empty() {
            // Without version directories, the model directory is version 1, if the model file exists.
            let model = within(&location.path);
            return Ok(if model.exists() { only(model) } else { BTreeMap::new() });
        }
        let files = |directory: PathBuf| Files { model: within(&directory), stamped: directory };
        Ok(dirs.into_iter().map(|(version, directory)| (version, files(directory))).collect())
    }
}

/// Paths of one version.
struct Files {
    /// The model file; the directory for backends that need no file.
    model: PathBuf,
    /// The file or directory whose stamp changes with the version.
    stamped: PathBuf,
}

/// Returns the single version of a model without version directories.
fn only(file: PathBuf) -> BTreeMap<u64, Files> {
    BTreeMap::from([(ONLY_VERSION, Files { stamped: file.clone(), model: file })])
}

fn fingerprints<'a>(
    (location, change_detection): (&ModelLocation, ChangeDetection),
    config: &ModelConfig,
    versions: impl Iterator<Item = (&'a u64, &'a Files)>,
) -> Result<BTreeMap<u64, Fingerprint>, String> {
    let config = Arc::new(proto::ModelConfig { version_policy: None, ..config.proto.clone() });
    let shared = Arc::new(shared_stamp(location, change_detection)?);
    let mut fingerprints = BTreeMap::new();
    for (version, Files { model, stamped }) in versions {
        let fingerprint = Fingerprint {
            path: model.clone(),
            config: Arc::clone(&config),
            shared: Arc::clone(&shared),
            files: Stamp::of(stamped, change_detection)?,
        };
        fingerprints.insert(*version, fingerprint);
    }
    Ok(fingerprints)
}

/// Returns the directories whose entries affect a load.
fn directory_stamps(location: &ModelLocation) -> Result<DirectoryStamps, String> {
    let versions = match location.layout {
        Layout::File | Layout::Bare => Vec::new(),
        Layout::Versioned => layout::version_dirs(&location.path)?,
    };
    let own = directory(location).to_owned();
    let versions = versions.into_iter().map(|(_, directory)| directory);
    Ok(DirectoryStamps::of(versions.chain([own])))
}

/// Returns the stamp of the files that all versions share. Configuration files are left out, because configurations are
/// compared by content.
fn shared_stamp(location: &ModelLocation, change_detection: ChangeDetection) -> Result<Stamp, String> {
    match location.layout {
        Layout::File | Layout::Bare => Stamp::of(&directory(location).join(EXAMPLE_FILE), change_detection),
        Layout::Versioned => Stamp::of_entries(&location.path, change_detection, |child| {
            child.is_version() || [CONFIG_FILE, CONFIGS].iter().any(|name| child.is(name))
        }),
    }
}

fn directory(location: &ModelLocation) -> &Path {
    match location.layout {
        Layout::File => location.path.parent().unwrap_or(&location.path),
        Layout::Versioned | Layout::Bare => &location.path,
    }
}

//! What a model's directory offers right now: its configuration, and per wanted version where the
//! model file lies and what identifies it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use weir_protocol::grpc::proto;

use super::config_file;
use super::layout::{self, BARE_FILE, CONFIG_FILE, Layout};
use super::listing::{Naming, Place};
use super::options::Places;
use super::stamp::Stamp;
use crate::backend::LoadError;
use crate::config::ModelConfig;

/// What the model of a single file, or of a directory without version directories, counts as.
const ONLY_VERSION: u64 = 1;

/// A model, ready to be loaded.
#[derive(Clone, Debug)]
pub(super) struct Inspected {
    /// Its configuration.
    pub config: Arc<ModelConfig>,
    /// Its directory; of a single file, the one it lies in.
    pub dir: PathBuf,
    /// The versions its policy wants.
    pub versions: BTreeMap<u64, Fingerprint>,
    /// Keeps uploaded files until nothing was loaded from them any more.
    pub scratch: Option<Arc<TempDir>>,
}

/// What a version is made of. Equal fingerprints need no reload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fingerprint {
    /// The model file, or the version's directory.
    pub path: PathBuf,
    /// Without the version policy: that one chooses versions and changes none.
    config: Arc<proto::ModelConfig>,
    /// The model directory's own files: labels, warm-up data.
    shared: Arc<Stamp>,
    /// The version's files.
    files: Stamp,
}

/// Where a configuration comes from.
#[derive(Clone, Debug)]
pub(super) enum ConfigSource {
    /// The model's directory.
    File,
    /// The client that asked for the load, as JSON.
    Given(String),
}

/// Looks at models.
pub(super) struct Inspector<'a> {
    /// How to read what lies there.
    pub places: &'a Places,
    /// Which file a backend wants; see [`Launch::default_filename`](super::Launch::default_filename).
    pub default_filename: &'a dyn Fn(&str) -> Result<Option<&'static str>, LoadError>,
}

impl Inspector<'_> {
    /// Looks at one model.
    ///
    /// # Errors
    /// A sentence for the index and the client.
    pub(super) fn inspect(
        &self,
        name: &str,
        place: &Place,
        source: ConfigSource,
    ) -> Result<Inspected, String> {
        let config = self.config(name, place, source)?;
        let found = self.found_versions(place, &config)?;
        let wanted = config
            .version_policy
            .choose(&found.keys().copied().collect());
        if wanted.is_empty() {
            return Err(format!(
                "at least one version must be available under the version policy of model '{name}'"
            ));
        }
        let wanted = wanted.iter().map(|version| (*version, &found[version]));
        let versions = fingerprints(place, &config, wanted)?;
        let dir = directory(place).to_owned();
        Ok(Inspected {
            config: Arc::new(config),
            dir,
            versions,
            scratch: None,
        })
    }

    fn config(
        &self,
        name: &str,
        place: &Place,
        source: ConfigSource,
    ) -> Result<ModelConfig, String> {
        let lies = (place.path.as_path(), place.layout);
        let mut config = match source {
            ConfigSource::Given(json) => config_file::given(name, lies, &json)?,
            ConfigSource::File => config_file::read(name, lies, self.places)?,
        };
        match place.naming {
            Naming::Directory => config
                .check_directory(name)
                .map_err(|error| error.to_string())?,
            Naming::Free => {
                name.clone_into(&mut config.name);
                name.clone_into(&mut config.proto.name);
            }
        }
        Ok(config)
    }

    /// Every version that is there.
    fn found_versions(
        &self,
        place: &Place,
        config: &ModelConfig,
    ) -> Result<BTreeMap<u64, Files>, String> {
        // Asked in any case: it knows whether there is such a backend.
        let usual = (self.default_filename)(&config.backend).map_err(|error| error.to_string())?;
        let file = match place.layout {
            Layout::File => return Ok(only(place.path.clone())),
            Layout::Bare => return Ok(only(place.path.join(BARE_FILE))),
            Layout::Versioned => config.default_model_filename.as_deref().or(usual),
        };
        let within = |directory: &Path| match file {
            Some(file) => directory.join(file),
            None => directory.to_owned(),
        };
        let dirs = layout::version_dirs(&place.path)?;
        if dirs.is_empty() {
            return Ok(without_versions(within(&place.path)));
        }
        let files = |directory: PathBuf| Files {
            model: within(&directory),
            stamped: directory,
        };
        Ok(dirs
            .into_iter()
            .map(|(version, directory)| (version, files(directory)))
            .collect())
    }
}

/// Where one version lies.
struct Files {
    /// The model file, or the directory for backends without one.
    model: PathBuf,
    /// What changes when the version does.
    stamped: PathBuf,
}

/// The one version of a model that has no place for more.
fn only(file: PathBuf) -> BTreeMap<u64, Files> {
    BTreeMap::from([(
        ONLY_VERSION,
        Files {
            stamped: file.clone(),
            model: file,
        },
    )])
}

/// A model directory without version directories is itself version 1, if the model is there.
fn without_versions(model: PathBuf) -> BTreeMap<u64, Files> {
    if model.exists() {
        only(model)
    } else {
        BTreeMap::new()
    }
}

fn fingerprints<'a>(
    place: &Place,
    config: &ModelConfig,
    wanted: impl Iterator<Item = (u64, &'a Files)>,
) -> Result<BTreeMap<u64, Fingerprint>, String> {
    let config = Arc::new(proto::ModelConfig {
        version_policy: None,
        ..config.proto.clone()
    });
    let shared = Arc::new(shared_stamp(place)?);
    let mut fingerprints = BTreeMap::new();
    for (version, Files { model, stamped }) in wanted {
        let fingerprint = Fingerprint {
            path: model.clone(),
            config: Arc::clone(&config),
            shared: Arc::clone(&shared),
            files: Stamp::of(stamped)?,
        };
        fingerprints.insert(version, fingerprint);
    }
    Ok(fingerprints)
}

/// What all versions share. The configuration is compared by meaning, not by its file's time.
fn shared_stamp(place: &Place) -> Result<Stamp, String> {
    match place.layout {
        Layout::File | Layout::Bare => Ok(Stamp::default()),
        Layout::Versioned => Stamp::beside(&place.path, |child| {
            child.is_version() || [CONFIG_FILE, "configs"].iter().any(|name| child.is(name))
        }),
    }
}

fn directory(place: &Place) -> &Path {
    match place.layout {
        Layout::File => place.path.parent().unwrap_or(&place.path),
        Layout::Versioned | Layout::Bare => &place.path,
    }
}

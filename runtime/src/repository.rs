//! The model repository: its models, the state of each version, loading and unloading.
//!
//! ```text
//!   paths ──scan──► catalog ──inspect──► fingerprints ──decide──► load / unload ──Launch──► registry ──find──► requests
//! ```
//!
//! A request reads the registry without a lock. Loads of one model run one after the other, loads of different models
//! in parallel. A new version loads while the old one serves, and replaces it only when it is ready. So a reload never
//! interrupts service, and a failed reload changes nothing.

mod changes;
mod failure;
mod found;
mod index;
mod inspect;
mod labels;
mod launch;
mod lifecycle;
mod load_locks;
mod loader;
mod model_entry;
mod on_disk;
mod poll;
mod registry;
mod scan;
mod state;
mod upload;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use failure::LoadFailure;
pub(crate) use found::{FoundModel, found_models};
pub(crate) use index::{IndexEntry, IndexState};
pub(crate) use launch::{Launch, VersionSource};
pub use on_disk::check::check_models;
pub(crate) use on_disk::layout::EXAMPLE_FILE;
pub(crate) use on_disk::options::{
    AutoComplete, ControlMode, IndexFilter, LoadOptions, ReadinessPolicy, RepositoryOptions,
};

use crate::error::ServeError;
use lifecycle::ModelLifecycle;
use model_entry::ModelEntry;
use on_disk::options::ScanOptions;

/// A model repository in a bucket or on a hub, with a local copy.
pub trait RemoteRepository: fmt::Debug + Send + Sync {
    /// Returns the directory of the copy, which exists and is empty before the first refresh.
    fn directory(&self) -> PathBuf;

    /// Updates the copies of the wanted models. A model that cannot be updated keeps its former files. The error is a
    /// sentence that names the object.
    fn refresh<'a>(&'a self, models: &'a RefreshedModels) -> Refresh<'a>;
}

/// Future of an update of a copy.
pub type Refresh<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// Models whose copies are updated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RefreshedModels {
    /// Every model of the repository.
    All,
    /// The models with these names.
    Named(BTreeSet<String>),
}

/// The model repository; `L` loads and retires its versions.
pub(crate) struct Repository<L: Launch> {
    lifecycle: Arc<ModelLifecycle<L>>,
    /// True if `--model-name` is set. The server then becomes ready only with a model.
    is_named: bool,
}

/// A version that accepts requests.
#[derive(Debug)]
pub(crate) struct ServingVersion<S> {
    pub(crate) model: String,
    pub version: u64,
    pub served: Arc<S>,
}

impl<L: Launch> Repository<L> {
    /// Lists the models in the paths, without loading any. The repository never writes to the paths.
    ///
    /// # Errors
    /// If a path cannot be read, `model_name` is invalid, or `model_name` names a model that the path does not hold and
    /// that no later poll or load can add. Blocks on the file system.
    pub(crate) fn new(
        paths: &[PathBuf],
        model_name: Option<String>,
        options: RepositoryOptions,
        launch: L,
    ) -> Result<Self, ServeError> {
        if let Some(name) = &model_name {
            on_disk::names::check(name)?;
        }
        let scan = ScanOptions {
            paths: paths.to_vec(),
            model_name,
            config_name: options.config_name.clone(),
            auto_complete: options.auto_complete,
            change_detection: options.control.change_detection(),
            example: options.example.clone(),
        };
        let catalog = on_disk::catalog::list(&scan).map_err(failure::unreadable_paths)?;
        match (on_disk::catalog::check_found(&catalog, &scan), &options.control) {
            (Ok(()), _) | (Err(_), ControlMode::Explicit { .. }) => {}
            // The copies of remote repositories are empty until the initial loads.
            (Err(_), ControlMode::None) if !options.remotes.is_empty() => {}
            (Err(reason), ControlMode::None) => return Err(failure::unreadable_paths(reason)),
            (Err(reason), ControlMode::Poll(_)) => tracing::warn!("{reason}"),
        }
        let is_named = scan.model_name.is_some();
        let lifecycle = ModelLifecycle::new(scan, options, launch);
        lifecycle.registry.update(|registry| registry.apply(&catalog));
        Ok(Self { lifecycle: Arc::new(lifecycle), is_named })
    }

    /// Makes the initial loads of the control mode. Afterwards the repository counts as started, even if loads failed:
    /// the caller decides whether the process continues (`--exit-on-error`).
    ///
    /// # Errors
    /// Every load that failed.
    pub(crate) async fn start(&self) -> Result<(), Vec<LoadFailure>> {
        let failures = self.lifecycle.start().await;
        if failures.is_empty() { Ok(()) } else { Err(failures) }
    }

    /// Finds the loaded version for a model and a version; "" means the highest ready version. Takes no lock, and
    /// allocates only on failure.
    ///
    /// # Errors
    /// If the model or version is unknown or not ready, or the server is exiting.
    pub(crate) fn find(&self, name: &str, version: &str) -> Result<Arc<L::Served>, ServeError> {
        self.lifecycle.registry.load().find(name, version)
    }

    /// Returns the model's ready versions, in ascending order.
    ///
    /// # Errors
    /// If the model is unknown, or none of its versions is ready.
    pub(crate) fn model(&self, name: &str) -> Result<Vec<(u64, Arc<L::Served>)>, ServeError> {
        let registry = self.lifecycle.registry.load();
        registry.find(name, "")?;
        let serving = registry.model(name).into_iter().flat_map(ModelEntry::serving);
        Ok(serving.map(|(version, served)| (version, Arc::clone(served))).collect())
    }

    /// True if the repository has a model of this name, or ever loaded one.
    #[cfg(test)]
    pub(crate) fn is_known(&self, name: &str) -> bool {
        self.lifecycle.registry.load().model(name).is_some()
    }

    /// Returns all versions that accept requests, in order of name and version.
    pub(crate) fn serving(&self) -> Vec<ServingVersion<L::Served>> {
        let registry = self.lifecycle.registry.load();
        let versions = |model: &ModelEntry<L::Served>| {
            let serving = model.serving().map(|(version, served)| ServingVersion {
                model: model.name().to_owned(),
                version,
                served: Arc::clone(served),
            });
            serving.collect::<Vec<_>>()
        };
        let mut serving: Vec<_> = registry.models().flat_map(versions).collect();
        serving.sort_by(|left, right| (&left.model, left.version).cmp(&(&right.model, right.version)));
        serving
    }

    /// The launcher of the repository's versions.
    pub(crate) fn launch(&self) -> &L {
        &self.lifecycle.launch
    }

    /// True if the state of the models allows the server to be ready.
    pub(crate) fn is_ready(&self) -> bool {
        let policy = self.lifecycle.options.readiness;
        let registry = self.lifecycle.registry.load();
        let has_models = !self.is_named || registry.models().next().is_some();
        has_models && registry.is_ready(policy)
    }

    /// Returns a counter of state changes of models and versions, for tests that wait for a change.
    #[cfg(test)]
    pub(crate) fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.lifecycle.registry.changes()
    }

    /// Returns all known models and versions with their states, in order of name and version. A new directory appears
    /// after the next load or poll.
    pub(crate) fn index(&self, filter: IndexFilter) -> Vec<IndexEntry> {
        self.lifecycle.registry.load().index(filter)
    }

    /// Loads a model, or reloads its changed versions. Returns when the model serves.
    ///
    /// # Errors
    /// The reason, in Triton's words if Triton has the error. Versions that served before continue to serve.
    ///
    /// # Cancellation
    /// A load that has started continues without its caller.
    pub(crate) async fn load(&self, name: &str, options: LoadOptions) -> Result<(), ServeError> {
        self.check_explicit(name)?;
        self.lifecycle.load(name, options).await
    }

    /// Takes a model out of service. Returns when the model accepts no more requests; accepted requests are answered in
    /// the background.
    ///
    /// # Errors
    /// If the control mode is not explicit or the name is invalid. An unknown model is not an error, as in Triton.
    pub(crate) async fn unload(&self, name: &str) -> Result<(), ServeError> {
        self.check_explicit(name)?;
        self.lifecycle.unload(name).await
    }

    /// Polls the repository for changes until `shutdown`, in mode [`ControlMode::Poll`]. Returns at once in other
    /// modes.
    pub(crate) async fn poll(self: Arc<Self>, shutdown: CancellationToken) {
        self.lifecycle.poll(&shutdown).await;
    }

    /// Ends the loads in progress as far as possible, and refuses later ones.
    pub(crate) fn end_loads(&self) {
        self.lifecycle.end_loads();
    }

    /// Unloads all models permanently. Returns when accepted requests are answered and no task is left. The caller
    /// limits the wait.
    pub(crate) async fn retire_all(&self) {
        self.lifecycle.retire_all().await;
    }

    fn check_explicit(&self, name: &str) -> Result<(), ServeError> {
        match self.lifecycle.options.control {
            ControlMode::Explicit { .. } => on_disk::names::check(name),
            ControlMode::None | ControlMode::Poll(_) => Err(failure::not_explicit()),
        }
    }
}

impl<L: Launch> std::fmt::Debug for Repository<L> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Repository").field("index", &self.index(IndexFilter::All)).finish()
    }
}

#[cfg(test)]
mod tests;

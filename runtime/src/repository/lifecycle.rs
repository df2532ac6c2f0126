//! Loads, reloads, unloads and retires models, each in a task that the repository owns and joins.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::RefreshedModels;
use super::changes::Retry;
use super::failure::{self, LoadFailure};
use super::inspect::{ConfigSource, Inspected, Stability};
use super::launch::Launch;
use super::load_locks::LoadLocks;
use super::loader::Loader;
use super::model_entry::{Retiring, VersionSelection};
use super::registry::{RepositoryPhase, SharedRegistry};
use super::scan::Scanner;
use crate::clock;
use crate::error::ServeError;
use crate::repository::on_disk::catalog::{Catalog, ModelLocation};
use crate::repository::on_disk::options::{LoadOptions, RepositoryOptions, ScanOptions};

/// State shared by all tasks of a repository.
pub(super) struct ModelLifecycle<L: Launch> {
    pub(super) registry: SharedRegistry<L::Served>,
    pub(super) options: RepositoryOptions,
    pub(super) locks: LoadLocks,
    pub(super) tasks: TaskTracker,
    pub(super) scanner: Scanner<L>,
    pub(super) launch: Arc<L>,
    loader: Loader<L>,
}

impl<L: Launch> ModelLifecycle<L> {
    /// Creates a lifecycle without models or tasks.
    pub(super) fn new(scan: ScanOptions, options: RepositoryOptions, launch: L) -> Self {
        let launch = Arc::new(launch);
        Self {
            registry: SharedRegistry::new(),
            locks: LoadLocks::default(),
            tasks: TaskTracker::new(),
            scanner: Scanner::new(scan, Arc::clone(&launch)),
            loader: Loader::new(Arc::clone(&launch), &options),
            launch,
            options,
        }
    }

    /// Updates the copies of remote repositories, lists the repository paths, and updates the registry.
    ///
    /// # Errors
    /// If a wanted model cannot be fetched, or a path cannot be read.
    pub(super) async fn scan(&self, wanted: &RefreshedModels) -> Result<Catalog, String> {
        self.refresh(wanted).await?;
        self.list().await
    }

    /// Updates the copies of all remote repositories.
    ///
    /// # Errors
    /// The first error, after all repositories were tried.
    pub(super) async fn refresh(&self, wanted: &RefreshedModels) -> Result<(), String> {
        let refreshed = join_all(self.options.remotes.iter().map(|remote| remote.refresh(wanted))).await;
        refreshed.into_iter().collect()
    }

    /// Lists the repository paths, and updates the registry.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub(super) async fn list(&self) -> Result<Catalog, String> {
        let catalog = self.scanner.list().await?;
        if !self.registry.load().matches(&catalog) {
            self.registry.update(|registry| registry.apply(&catalog));
        }
        Ok(catalog)
    }

    /// Loads a model at a client's request.
    pub(super) async fn load(self: &Arc<Self>, name: &str, options: LoadOptions) -> Result<(), ServeError> {
        let name = self.registry.load().canonical(name).to_owned();
        let lock = self.locks.acquire(&name).await;
        let lifecycle = Arc::clone(self);
        // A task, so that a client that disconnects does not interrupt the load.
        let load = self.tasks.spawn(async move {
            let _lock = lock;
            lifecycle.load_locked(&name, options).await
        });
        load.await.unwrap_or(Err(ServeError::Exiting))
    }

    async fn load_locked(self: &Arc<Self>, name: &str, options: LoadOptions) -> Result<(), ServeError> {
        self.check_running()?;
        let inspected = self.inspect_requested(name, options).await?;
        let failures = self.load_changes(name, &inspected, Retry::Failed).await;
        if failures.is_empty() { Ok(()) } else { Err(failure::load_failed(name, &failures)) }
    }

    /// Inspects the model that a load call refers to: uploaded files, or the model in the repository.
    async fn inspect_requested(&self, name: &str, options: LoadOptions) -> Result<Inspected, ServeError> {
        let LoadOptions { config, files } = options;
        match config {
            Some(config) if !files.is_empty() => {
                let files = (files, self.options.max_upload);
                let inspected = self.scanner.inspect_upload(name, config, files).await?;
                inspected.map_err(|reason| failure::model_failed(name, reason))
            }
            None if !files.is_empty() => Err(failure::files_without_config(name)),
            Some(config) => {
                let source = ConfigSource::Given(config);
                // A wrong configuration from a client does not make the model on disk a failure.
                let inspected = self.inspect_in_repository(name, source).await?;
                inspected.map_err(|reason| failure::model_failed(name, reason))
            }
            None => {
                let inspected = self.inspect_in_repository(name, ConfigSource::File).await?;
                inspected.map_err(|reason| failure::load_failed(name, &[self.mark_failed(name, reason)]))
            }
        }
    }

    async fn inspect_in_repository(
        &self,
        name: &str,
        source: ConfigSource,
    ) -> Result<Result<Inspected, String>, ServeError> {
        // A model that --model-name renames has another name in its repository.
        let wanted = if self.scanner.renames() {
            RefreshedModels::All
        } else {
            RefreshedModels::Named([name.to_owned()].into())
        };
        let mut catalog = self.scan(&wanted).await.map_err(|reason| failure::unreadable(name, &reason))?;
        let entry = catalog.remove(name).ok_or_else(|| failure::absent(name))?;
        Ok(match entry.location {
            Ok(location) => self.inspect(name, location, source).await,
            Err(reason) => Err(reason),
        })
    }

    /// Inspects the model at `location`, including the versions that serve.
    ///
    /// # Errors
    /// The reason, for the index and the client.
    pub(super) async fn inspect(
        &self,
        name: &str,
        location: ModelLocation,
        source: ConfigSource,
    ) -> Result<Inspected, String> {
        let in_service = self.registry.load().in_service(name);
        let inspection = self.scanner.inspect(name, location, source, in_service);
        inspection.await
    }

    /// Takes a model out of service at a client's request.
    pub(super) async fn unload(self: &Arc<Self>, name: &str) -> Result<(), ServeError> {
        let name = self.registry.load().canonical(name).to_owned();
        let _lock = self.locks.acquire(&name).await;
        self.check_running()?;
        if self.registry.load().model(&name).is_none() {
            // The model is already out of service; Triton answers with success too.
            return Ok(());
        }
        self.unload_versions(&name, VersionSelection::All);
        Ok(())
    }

    /// Ends the loads in progress as far as possible, and refuses later ones.
    pub(super) fn end_loads(&self) {
        self.launch.close();
    }

    /// Unloads all models and waits for every task.
    pub(super) async fn retire_all(self: &Arc<Self>) {
        self.registry.update(|registry| registry.phase = RepositoryPhase::Exiting);
        self.tasks.close();
        self.unload_all();
        self.tasks.wait().await;
        // Loads in progress may have put versions into service in the meantime.
        self.unload_all();
        self.tasks.wait().await;
    }

    /// Loads the changed versions of a model, then unloads the versions that are no longer needed. The versions load
    /// independently of each other. A version that stands in for a failed one continues to serve.
    pub(super) async fn load_changes(
        self: &Arc<Self>,
        name: &str,
        found: &Inspected,
        retry: Retry,
    ) -> Vec<LoadFailure> {
        let versions = self.registry.update(|registry| registry.model_mut(name).begin_load(found, retry));
        let loads = versions.iter().map(|version| self.load_version(name, *version, found));
        let failures: Vec<_> = join_all(loads).await.into_iter().filter_map(Result::err).collect();
        let retiring = self.registry.update(|registry| registry.model_mut(name).finish_loads(&found.versions));
        self.retire_each(retiring);
        failures
    }

    async fn load_version(self: &Arc<Self>, name: &str, version: u64, found: &Inspected) -> Result<(), LoadFailure> {
        let started = clock::now();
        tracing::info!(model = name, version, "loading");
        let loaded = self.loader.load(name, version, found).await;
        let from = (found, self.scanner.stability(found).await);
        match loaded {
            Ok(served) => {
                let limitation = L::limitation(&served).map(str::to_owned);
                let served = (Arc::new(served), limitation);
                let replaced =
                    self.registry.update(|registry| registry.model_mut(name).finish_load(version, from, served));
                self.retire_each(replaced);
                let ms = started.elapsed().as_millis() as u64;
                tracing::info!(model = name, version, ms, "ready");
                Ok(())
            }
            Err(reason) => Err(self.mark_version_failed(name, version, from, reason)),
        }
    }

    fn mark_version_failed(
        &self,
        name: &str,
        version: u64,
        from: (&Inspected, Stability),
        reason: String,
    ) -> LoadFailure {
        tracing::error!(model = name, version, reason, "load failed");
        let model = name.to_owned();
        self.registry.update(|registry| {
            registry.model_mut(name).fail_load(version, from, reason.clone());
        });
        LoadFailure::Version { model, version, reason }
    }

    /// Marks a model whose directory cannot be used as failed.
    pub(super) fn mark_failed(&self, name: &str, reason: String) -> LoadFailure {
        let is_new = self.registry.update(|registry| registry.model_mut(name).mark_failed(&reason));
        if is_new {
            tracing::error!(model = name, reason, "load failed");
        } else {
            tracing::debug!(model = name, reason, "load still fails");
        }
        LoadFailure::Model { model: name.to_owned(), reason }
    }

    /// Takes versions out of service and retires them in the background.
    pub(super) fn unload_versions(self: &Arc<Self>, name: &str, selection: VersionSelection<'_>) {
        let retiring = self.registry.update(|registry| registry.model_mut(name).begin_unload(selection));
        self.retire_each(retiring);
    }

    fn unload_all(self: &Arc<Self>) {
        let retiring: Vec<_> = self.registry.update(|registry| {
            let models = registry.models_mut();
            models.flat_map(|model| model.begin_unload(VersionSelection::All)).collect()
        });
        self.retire_each(retiring);
    }

    fn retire_each(self: &Arc<Self>, retiring: impl IntoIterator<Item = Retiring<L::Served>>) {
        for retiring in retiring {
            let lifecycle = Arc::clone(self);
            self.tasks.spawn(async move { lifecycle.retire(retiring).await });
        }
    }

    async fn retire(&self, retiring: Retiring<L::Served>) {
        let Retiring { model, version, served } = retiring;
        let drained = AssertUnwindSafe(self.launch.retire(Arc::clone(&served))).catch_unwind();
        match timeout(self.options.retire_limit, drained).await {
            Ok(Ok(())) => tracing::info!(model = &*model, version, "retired"),
            Ok(Err(_)) => tracing::error!(model = &*model, version, "the unload of a model version panicked"),
            Err(_) => tracing::warn!(
                model = &*model,
                version,
                "requests of a retired model version still run after the time limit; no longer waiting for them"
            ),
        }
        self.registry.update(|registry| registry.model_mut(&model).finish_unload(version, &served));
        // Freeing weights takes long, so it must not block requests on this thread. An error means that the runtime is
        // shutting down, which drops the version too.
        let _ = tokio::task::spawn_blocking(move || drop(served)).await;
    }

    /// Refuses work once the server is exiting.
    ///
    /// # Errors
    /// [`ServeError::Exiting`].
    pub(super) fn check_running(&self) -> Result<(), ServeError> {
        match self.registry.load().phase {
            RepositoryPhase::Starting | RepositoryPhase::Started => Ok(()),
            RepositoryPhase::Exiting => Err(ServeError::Exiting),
        }
    }
}

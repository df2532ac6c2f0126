//! Loads the whole repository: once at start, and after each period in mode poll.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{Interval, MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::RefreshedModels;
use super::changes::Retry;
use super::failure::{self, LoadFailure};
use super::inspect::{ConfigSource, Inspected};
use super::launch::Launch;
use super::lifecycle::ModelLifecycle;
use super::model_entry::VersionSelection;
use crate::repository::on_disk::catalog::{Catalog, CatalogEntry};
use crate::repository::on_disk::options::ControlMode;

/// Number of checks for a missing model between two polls. Renaming one directory over another takes a moment.
const LOOKS: u32 = 8;

/// The reason in the index for a model whose directory no longer holds a model.
const EMPTY_MODEL: &str =
    "its directory no longer holds config.pbtxt, a version or model.pt; to unload the model, remove the directory";

/// The value of `--load-model` that means every model.
const ALL_MODELS: &str = "*";

impl<L: Launch> ModelLifecycle<L> {
    /// Makes the initial loads, and returns those that failed. A model that cannot be fetched does not prevent the
    /// loads of the others.
    pub(super) async fn start(self: &Arc<Self>) -> Vec<LoadFailure> {
        let refreshed = self.refresh(&self.wanted_at_start()).await;
        let mut failures: Vec<_> =
            refreshed.err().map(|reason| LoadFailure::Repository { reason }).into_iter().collect();
        match self.list().await {
            Ok(catalog) => failures.extend(self.start_from(catalog).await),
            Err(reason) => failures.push(LoadFailure::Repository { reason }),
        }
        self.registry.update(|registry| registry.phase = registry.phase.after_start());
        failures
    }

    /// Returns the models of remote repositories that are fetched for the initial loads.
    fn wanted_at_start(&self) -> RefreshedModels {
        match &self.options.control {
            ControlMode::Explicit { load } if load.iter().all(|name| name != ALL_MODELS) && !self.scanner.renames() => {
                RefreshedModels::Named(load.iter().cloned().collect())
            }
            ControlMode::None | ControlMode::Poll(_) | ControlMode::Explicit { .. } => RefreshedModels::All,
        }
    }

    async fn start_from(self: &Arc<Self>, catalog: Catalog) -> Vec<LoadFailure> {
        match &self.options.control {
            ControlMode::None | ControlMode::Poll(_) => self.load_all(catalog).await,
            ControlMode::Explicit { load } if load.iter().any(|name| name == ALL_MODELS) => {
                self.load_all(catalog).await
            }
            ControlMode::Explicit { load } => {
                let (wanted, mut failures) = self.select(catalog, load);
                failures.extend(self.load_all(wanted).await);
                failures
            }
        }
    }

    /// Returns the models with these names, and a failure for each name that is not in the catalog.
    fn select(&self, mut catalog: Catalog, names: &[String]) -> (Catalog, Vec<LoadFailure>) {
        let registry = self.registry.load();
        let names: BTreeSet<_> = names.iter().map(|name| registry.canonical(name)).collect();
        let absent = names.iter().filter(|name| !catalog.contains_key(**name));
        let failures = absent
            .map(|name| LoadFailure::Absent { model: (*name).to_owned(), held: failure::some_names(catalog.keys()) })
            .collect();
        catalog.retain(|name, _| names.contains(name.as_str()));
        (catalog, failures)
    }

    /// Polls the repository after each period until `shutdown` is cancelled.
    pub(super) async fn poll(self: &Arc<Self>, shutdown: &CancellationToken) {
        let ControlMode::Poll(period) = self.options.control else {
            return;
        };
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut missing = BTreeSet::new();
        loop {
            let next = self.next_poll(&mut ticks, &mut missing);
            if shutdown.run_until_cancelled(next).await.is_none() {
                return;
            }
            // A load in progress continues as a separate task, which `retire_all` joins.
            match shutdown.run_until_cancelled(self.poll_once(&missing)).await {
                Some(still_missing) => missing = still_missing,
                None => return,
            }
        }
    }

    /// Waits for the next poll. In the meantime, removes models from `missing` whose directory exists again: a model
    /// that is briefly absent at two polls was not removed.
    async fn next_poll(&self, ticks: &mut Interval, missing: &mut BTreeSet<String>) {
        while !missing.is_empty() {
            if timeout(ticks.period() / LOOKS, ticks.tick()).await.is_ok() {
                return;
            }
            for name in missing.clone() {
                if self.scanner.has_directory(&name).await {
                    missing.remove(&name);
                }
            }
        }
        ticks.tick().await;
    }

    /// Updates the models from the repository. Returns the models that are absent now; `missing` were absent at the
    /// previous poll.
    async fn poll_once(self: &Arc<Self>, missing: &BTreeSet<String>) -> BTreeSet<String> {
        // The models that could be fetched are loaded, and the others keep their copies.
        if let Err(reason) = self.refresh(&RefreshedModels::All).await {
            tracing::warn!(reason, "cannot update the copy of a model repository");
        }
        match self.list().await {
            Ok(catalog) => {
                let gone = self.unload_removed(&catalog, missing).await;
                self.load_all(catalog).await;
                gone
            }
            // A file system that is briefly unavailable is no reason to stop serving.
            Err(reason) => {
                tracing::warn!(reason, "cannot read the model repository");
                BTreeSet::new()
            }
        }
    }

    /// Unloads models that are absent now and were absent at the previous poll, because a directory that is being
    /// replaced is absent for a moment. Returns the models that are absent now.
    async fn unload_removed(self: &Arc<Self>, catalog: &Catalog, missing: &BTreeSet<String>) -> BTreeSet<String> {
        let mut gone = self.registry.load().loaded_but_not_in(catalog);
        for name in gone.clone() {
            let _lock = self.locks.acquire(&name).await;
            if self.serves_from_directory(&name).await {
                self.mark_failed(&name, EMPTY_MODEL.to_owned());
                gone.remove(&name);
            } else if missing.contains(&name) {
                self.unload_versions(&name, VersionSelection::All);
            }
        }
        gone
    }

    /// True if the model serves and its directory exists: an emptied directory does not count as removed.
    async fn serves_from_directory(&self, name: &str) -> bool {
        let serves = !self.registry.load().in_service(name).is_empty();
        serves && self.scanner.has_directory(name).await
    }

    /// Loads the changed versions of every model in the catalog, in parallel.
    async fn load_all(self: &Arc<Self>, catalog: Catalog) -> Vec<LoadFailure> {
        let loads = catalog.into_values().map(|entry| {
            let lifecycle = Arc::clone(self);
            self.tasks.spawn(async move { lifecycle.load_entry(entry).await })
        });
        let loads: Vec<_> = loads.collect();
        join_all(loads).await.into_iter().filter_map(Result::ok).flatten().collect()
    }

    /// Returns true if the model keeps its state until the next poll, because its configuration looks half written.
    fn awaits_configuration(&self, name: &str, found: &Inspected) -> bool {
        let awaits = self.registry.update(|registry| registry.model_mut(name).awaits_configuration(found));
        if awaits {
            tracing::debug!(model = name, "the configuration is empty or cut off; waiting for the next poll");
        }
        awaits
    }

    async fn load_entry(self: &Arc<Self>, entry: CatalogEntry) -> Vec<LoadFailure> {
        let CatalogEntry { name, alias: _, location } = entry;
        let _lock = self.locks.acquire(&name).await;
        if self.check_running().is_err() {
            return Vec::new();
        }
        let inspected = match location {
            Ok(location) => self.inspect(&name, location, ConfigSource::File).await,
            Err(reason) => Err(reason),
        };
        match inspected {
            Ok(inspected) if self.awaits_configuration(&name, &inspected) => Vec::new(),
            Ok(inspected) => self.load_changes(&name, &inspected, Retry::Never).await,
            Err(reason) => vec![self.mark_failed(&name, reason)],
        }
    }
}

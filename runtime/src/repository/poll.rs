//! Loads of the whole repository: once at start, and each period in mode poll.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::catalog::{Catalog, CatalogEntry};
use super::changes::Retry;
use super::failure::LoadFailure;
use super::inspect::ConfigSource;
use super::launch::Launch;
use super::lifecycle::ModelLifecycle;
use super::model_entry::VersionSelection;
use super::options::ControlMode;

/// The value of `--load-model` that stands for every model.
const ALL_MODELS: &str = "*";

impl<L: Launch> ModelLifecycle<L> {
    /// Makes the initial loads and returns those that failed.
    pub(super) async fn start(self: &Arc<Self>) -> Vec<LoadFailure> {
        let failures = match self.scan().await {
            Ok(catalog) => self.start_from(catalog).await,
            Err(reason) => vec![LoadFailure::Repository { reason }],
        };
        self.registry
            .update(|registry| registry.phase = registry.phase.after_start());
        failures
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

    /// The catalog's models of these names, and a failure for each name that is not in it.
    fn select(&self, mut catalog: Catalog, names: &[String]) -> (Catalog, Vec<LoadFailure>) {
        let registry = self.registry.load();
        let names: BTreeSet<_> = names.iter().map(|name| registry.canonical(name)).collect();
        let absent = names.iter().filter(|name| !catalog.contains_key(**name));
        let failures = absent
            .map(|name| LoadFailure::Absent {
                model: (*name).to_owned(),
            })
            .collect();
        catalog.retain(|name, _| names.contains(name.as_str()));
        (catalog, failures)
    }

    /// Polls the repository each period until `shutdown`.
    pub(super) async fn poll(self: &Arc<Self>, shutdown: &CancellationToken) {
        let ControlMode::Poll(period) = self.options.control else {
            return;
        };
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        while shutdown.run_until_cancelled(ticks.tick()).await.is_some() {
            // A load that is under way goes on as a task of its own, which `retire_all` joins.
            if shutdown
                .run_until_cancelled(self.poll_once())
                .await
                .is_none()
            {
                return;
            }
        }
    }

    async fn poll_once(self: &Arc<Self>) {
        match self.scan().await {
            Ok(catalog) => {
                self.unload_removed(&catalog).await;
                self.load_all(catalog).await;
            }
            // A file system that is away for a moment is no reason to stop serving.
            Err(reason) => tracing::warn!(reason, "cannot read the model repository"),
        }
    }

    async fn unload_removed(self: &Arc<Self>, catalog: &Catalog) {
        let known: Vec<_> = self
            .registry
            .load()
            .models()
            .map(|model| model.name().to_owned())
            .collect();
        for name in known
            .iter()
            .filter(|name| !catalog.contains_key(name.as_str()))
        {
            let _lock = self.locks.acquire(name).await;
            self.unload_versions(name, VersionSelection::All);
        }
    }

    /// Loads what changed of every model in the catalog, side by side.
    async fn load_all(self: &Arc<Self>, catalog: Catalog) -> Vec<LoadFailure> {
        let loads = catalog.into_values().map(|entry| {
            let lifecycle = Arc::clone(self);
            self.tasks
                .spawn(async move { lifecycle.load_entry(entry).await })
        });
        let loads: Vec<_> = loads.collect();
        join_all(loads)
            .await
            .into_iter()
            .filter_map(Result::ok)
            .flatten()
            .collect()
    }

    async fn load_entry(self: &Arc<Self>, entry: CatalogEntry) -> Vec<LoadFailure> {
        let CatalogEntry {
            name,
            alias: _,
            location,
        } = entry;
        let _lock = self.locks.acquire(&name).await;
        if self.check_running().is_err() {
            return Vec::new();
        }
        let inspected = match location {
            Ok(location) => {
                self.scanner
                    .inspect(&name, location, ConfigSource::File)
                    .await
            }
            Err(reason) => Err(reason),
        };
        match inspected {
            Ok(inspected) => self.load_changes(&name, &inspected, Retry::Never).await,
            Err(reason) => vec![self.mark_failed(&name, reason)],
        }
    }
}

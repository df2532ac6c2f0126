//! Going through the whole repository: once at start, and each period in mode poll.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use super::board::Phase;
use super::changes::Retry;
use super::inspect::ConfigSource;
use super::jobs::Jobs;
use super::launch::Launch;
use super::listing::{Catalog, Found};
use super::model::Resting;
use super::options::ControlMode;
use super::refusal::Failure;

/// What `--load-model` says for everything.
const EVERYTHING: &str = "*";

impl<L: Launch> Jobs<L> {
    /// Makes the initial loads and says what failed.
    pub(super) async fn start(self: &Arc<Self>) -> Vec<Failure> {
        let failures = match self.list().await {
            Ok(catalog) => self.start_from(catalog).await,
            Err(reason) => vec![Failure::Repository { reason }],
        };
        self.board
            .edit(|board| board.phase = board.phase.after_start());
        failures
    }

    async fn start_from(self: &Arc<Self>, catalog: Catalog) -> Vec<Failure> {
        match &self.options.control {
            ControlMode::None | ControlMode::Poll(_) => self.bring_all(catalog).await,
            ControlMode::Explicit { load } if load.iter().any(|name| name == EVERYTHING) => {
                self.bring_all(catalog).await
            }
            ControlMode::Explicit { load } => {
                let (wanted, mut failures) = self.pick(catalog, load);
                failures.extend(self.bring_all(wanted).await);
                failures
            }
        }
    }

    /// Those of the catalog that are named, and a failure for each name that is not in it.
    fn pick(&self, mut catalog: Catalog, names: &[String]) -> (Catalog, Vec<Failure>) {
        let board = self.board.load();
        let names: BTreeSet<_> = names.iter().map(|name| board.canonical(name)).collect();
        let absent = names.iter().filter(|name| !catalog.contains_key(**name));
        let failures = absent
            .map(|name| Failure::Absent {
                model: (*name).to_owned(),
            })
            .collect();
        catalog.retain(|name, _| names.contains(name.as_str()));
        (catalog, failures)
    }

    /// Looks again each period until `shutdown`.
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
                .run_until_cancelled(self.look_again())
                .await
                .is_none()
            {
                return;
            }
        }
    }

    async fn look_again(self: &Arc<Self>) {
        match self.list().await {
            Ok(catalog) => {
                self.rest_vanished(&catalog).await;
                self.bring_all(catalog).await;
            }
            // A file system that is away for a moment is no reason to stop serving.
            Err(reason) => tracing::warn!(reason, "the model repository cannot be read"),
        }
    }

    async fn rest_vanished(self: &Arc<Self>, catalog: &Catalog) {
        let known: Vec<_> = self
            .board
            .load()
            .models()
            .map(|model| model.name().to_owned())
            .collect();
        for name in known
            .iter()
            .filter(|name| !catalog.contains_key(name.as_str()))
        {
            let _turn = self.turns.take(name).await;
            self.rest(name, Resting::All);
        }
    }

    /// Loads what changed of every model in the catalog, side by side.
    async fn bring_all(self: &Arc<Self>, catalog: Catalog) -> Vec<Failure> {
        let jobs = catalog.into_values().map(|found| {
            let jobs = Arc::clone(self);
            self.tasks
                .spawn(async move { jobs.bring_found(found).await })
        });
        let jobs: Vec<_> = jobs.collect();
        join_all(jobs)
            .await
            .into_iter()
            .filter_map(Result::ok)
            .flatten()
            .collect()
    }

    async fn bring_found(self: &Arc<Self>, found: Found) -> Vec<Failure> {
        let Found {
            name,
            alias: _,
            place,
        } = found;
        let _turn = self.turns.take(&name).await;
        if self.check_running().is_err() {
            return Vec::new();
        }
        let looked = match place {
            Ok(place) => self.look(&name, place, ConfigSource::File).await,
            Err(reason) => Err(reason),
        };
        match looked {
            Ok(inspected) => self.bring(&name, &inspected, Retry::Never).await,
            Err(reason) => vec![self.suffer(&name, reason)],
        }
    }
}

impl Phase {
    /// An end that began while the initial loads ran stays one.
    fn after_start(self) -> Self {
        match self {
            Self::Starting | Self::Started => Self::Started,
            Self::Exiting => Self::Exiting,
        }
    }
}

//! Loads, reloads, unloads and retirements: each a task that the repository owns and joins.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::board::{Phase, Published};
use super::changes::Retry;
use super::inspect::Inspected;
use super::launch::Launch;
use super::loader::Loader;
use super::model::{Leaving, News, Resting};
use super::options::{LoadOptions, Options, Places};
use super::refusal::{self, Failure};
use super::turns::Turns;
use crate::error::ServeError;

/// What all tasks of a repository share.
pub(super) struct Jobs<L: Launch> {
    pub(super) board: Published<L::Served>,
    pub(super) options: Options,
    pub(super) turns: Turns,
    pub(super) tasks: TaskTracker,
    pub(super) places: Arc<Places>,
    pub(super) launch: Arc<L>,
    loader: Loader<L>,
}

impl<L: Launch> Jobs<L> {
    /// Nothing known, nothing under way.
    pub(super) fn new(places: Places, options: Options, launch: L) -> Self {
        let launch = Arc::new(launch);
        Self {
            board: Published::new(),
            turns: Turns::default(),
            tasks: TaskTracker::new(),
            places: Arc::new(places),
            loader: Loader::new(Arc::clone(&launch), &options),
            launch,
            options,
        }
    }

    /// Loads what a client asks for.
    pub(super) async fn load(
        self: &Arc<Self>,
        name: &str,
        options: LoadOptions,
    ) -> Result<(), ServeError> {
        let name = self.board.load().canonical(name).to_owned();
        let turn = self.turns.take(&name).await;
        let jobs = Arc::clone(self);
        // A client that leaves must not stop a load half-way.
        let job = self.tasks.spawn(async move {
            let _turn = turn;
            jobs.load_in_turn(&name, options).await
        });
        job.await.unwrap_or(Err(ServeError::Exiting))
    }

    async fn load_in_turn(
        self: &Arc<Self>,
        name: &str,
        options: LoadOptions,
    ) -> Result<(), ServeError> {
        self.check_running()?;
        let inspected = self.look_as_asked(name, options).await?;
        let failures = self.bring(name, &inspected, Retry::Failed).await;
        if failures.is_empty() {
            Ok(())
        } else {
            Err(refusal::load_failed(name, &failures))
        }
    }

    /// Takes a model out of service because a client asks.
    pub(super) async fn unload(self: &Arc<Self>, name: &str) -> Result<(), ServeError> {
        let name = self.board.load().canonical(name).to_owned();
        let _turn = self.turns.take(&name).await;
        self.check_running()?;
        if self.board.load().model(&name).is_none() {
            // It is out of service already; Triton says so, too.
            return Ok(());
        }
        self.rest(&name, Resting::All);
        Ok(())
    }

    /// Puts everything to rest and waits for every task.
    pub(super) async fn retire_all(self: &Arc<Self>) {
        self.board.edit(|board| board.phase = Phase::Exiting);
        self.tasks.close();
        self.rest_everything();
        self.tasks.wait().await;
        // What was loading when the end began may have come to life meanwhile.
        self.rest_everything();
        self.tasks.wait().await;
    }

    /// Loads what changed of a model, then puts to rest what it no longer has. Each version stands
    /// for itself, but nothing rests while another failed: it may be all that serves.
    pub(super) async fn bring(
        self: &Arc<Self>,
        name: &str,
        found: &Inspected,
        retry: Retry,
    ) -> Vec<Failure> {
        let changes = self
            .board
            .edit(|board| board.model_mut(name).begin(found, retry));
        let loads = changes
            .load
            .iter()
            .map(|version| self.bring_version(name, *version, found));
        let failures: Vec<_> = join_all(loads)
            .await
            .into_iter()
            .filter_map(Result::err)
            .collect();
        if failures.is_empty() {
            self.rest(name, Resting::These(&changes.rest));
        }
        failures
    }

    async fn bring_version(
        self: &Arc<Self>,
        name: &str,
        version: u64,
        found: &Inspected,
    ) -> Result<(), Failure> {
        let started = Instant::now();
        tracing::info!(model = name, version, "loading");
        match self.loader.load(name, version, found).await {
            Ok(served) => {
                let served = Arc::new(served);
                let replaced = self
                    .board
                    .edit(|board| board.model_mut(name).succeed(version, found, served));
                self.retire_all_of(replaced);
                let ms = started.elapsed().as_millis();
                tracing::info!(model = name, version, ms, "ready");
                Ok(())
            }
            Err(reason) => Err(self.fail(name, version, found, reason)),
        }
    }

    fn fail(&self, name: &str, version: u64, found: &Inspected, reason: String) -> Failure {
        tracing::error!(model = name, version, reason, "load failed");
        let model = name.to_owned();
        self.board
            .edit(|board| board.model_mut(name).fail(version, found, reason.clone()));
        Failure::Version {
            model,
            version,
            reason,
        }
    }

    /// Notes that a model's directory is no use.
    pub(super) fn suffer(&self, name: &str, reason: String) -> Failure {
        match self
            .board
            .edit(|board| board.model_mut(name).suffer(&reason))
        {
            News::New => tracing::error!(model = name, reason, "load failed"),
            News::Old => tracing::debug!(model = name, reason, "load still fails"),
        }
        Failure::Model {
            model: name.to_owned(),
            reason,
        }
    }

    /// Takes versions out of service and retires them in the background.
    pub(super) fn rest(self: &Arc<Self>, name: &str, which: Resting<'_>) {
        let leaving = self.board.edit(|board| board.model_mut(name).rest(which));
        self.retire_all_of(leaving);
    }

    fn rest_everything(self: &Arc<Self>) {
        let leaving: Vec<_> = self.board.edit(|board| {
            let models = board.models_mut();
            models.flat_map(|model| model.rest(Resting::All)).collect()
        });
        self.retire_all_of(leaving);
    }

    fn retire_all_of(self: &Arc<Self>, leaving: impl IntoIterator<Item = Leaving<L::Served>>) {
        for leaving in leaving {
            let jobs = Arc::clone(self);
            self.tasks.spawn(async move { jobs.retire(leaving).await });
        }
    }

    async fn retire(&self, leaving: Leaving<L::Served>) {
        let Leaving {
            model,
            version,
            served,
        } = leaving;
        let drained = AssertUnwindSafe(self.launch.retire(Arc::clone(&served))).catch_unwind();
        match timeout(self.options.retire_limit, drained).await {
            Ok(Ok(())) => tracing::info!(model = &*model, version, "retired"),
            Ok(Err(_)) => tracing::error!(model = &*model, version, "retiring panicked"),
            Err(_) => tracing::warn!(model = &*model, version, "still busy, not waited for"),
        }
        self.board
            .edit(|board| board.model_mut(&model).rested(version, &served));
        // Freeing weights takes its time, which requests on this thread should not wait for. An
        // error says that the runtime ends, which drops it too.
        let _ = tokio::task::spawn_blocking(move || drop(served)).await;
    }

    /// Refuses work once the end began.
    ///
    /// # Errors
    /// [`ServeError::Exiting`].
    pub(super) fn check_running(&self) -> Result<(), ServeError> {
        match self.board.load().phase {
            Phase::Starting | Phase::Started => Ok(()),
            Phase::Exiting => Err(ServeError::Exiting),
        }
    }
}

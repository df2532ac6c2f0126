//! Loads, reloads, unloads and retirements: each a task that the repository owns and joins.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use tokio::time::{Instant, timeout};
use tokio_util::task::TaskTracker;

use super::board::{Phase, Published};
use super::changes::Retry;
use super::inspect::{ConfigSource, Inspected, Inspector};
use super::launch::Launch;
use super::layout::Layout;
use super::listing::{self, Catalog, Naming, Place};
use super::loader::Loader;
use super::model::{Leaving, News, Resting};
use super::options::{LoadOptions, Options, Places};
use super::refusal::{self, Failure};
use super::turns::Turns;
use super::upload;
use crate::error::ServeError;

/// What all tasks of a repository share.
pub(super) struct Jobs<L: Launch> {
    pub(super) board: Published<L::Served>,
    pub(super) options: Options,
    pub(super) turns: Turns,
    pub(super) tasks: TaskTracker,
    places: Arc<Places>,
    launch: Arc<L>,
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
            return Err(ServeError::UnknownModel(name));
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
                replaced
                    .into_iter()
                    .for_each(|leaving| self.retire(leaving));
                tracing::info!(
                    model = name,
                    version,
                    ms = started.elapsed().as_millis(),
                    "ready"
                );
                Ok(())
            }
            Err(reason) => {
                tracing::error!(model = name, version, reason, "load failed");
                self.board
                    .edit(|board| board.model_mut(name).fail(version, found, reason.clone()));
                Err(Failure::Version {
                    model: name.to_owned(),
                    version,
                    reason,
                })
            }
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
        leaving.into_iter().for_each(|leaving| self.retire(leaving));
    }

    fn rest_everything(self: &Arc<Self>) {
        let leaving: Vec<_> = self.board.edit(|board| {
            board
                .models_mut()
                .flat_map(|model| model.rest(Resting::All))
                .collect()
        });
        leaving.into_iter().for_each(|leaving| self.retire(leaving));
    }

    fn retire(self: &Arc<Self>, leaving: Leaving<L::Served>) {
        let jobs = Arc::clone(self);
        self.tasks.spawn(async move {
            let Leaving {
                model,
                version,
                served,
            } = leaving;
            let drained = AssertUnwindSafe(jobs.launch.retire(Arc::clone(&served))).catch_unwind();
            match timeout(jobs.options.retire_limit, drained).await {
                Ok(Ok(())) => tracing::info!(model = &*model, version, "retired"),
                Ok(Err(_)) => {
                    tracing::error!(model = &*model, version, "panicked while it retired")
                }
                Err(_) => {
                    tracing::warn!(model = &*model, version, "still busy, no longer waited for")
                }
            }
            jobs.board
                .edit(|board| board.model_mut(&model).rested(version, &served));
        });
    }

    /// Which models there are now. The board learns of them.
    ///
    /// # Errors
    /// A path cannot be read.
    pub(super) async fn list(&self) -> Result<Catalog, String> {
        let places = Arc::clone(&self.places);
        let catalog = blocking(move || listing::list(&places)).await?;
        self.board.edit(|board| board.learn(&catalog));
        Ok(catalog)
    }

    /// What the place of one model offers now.
    ///
    /// # Errors
    /// The reason, for the index and the client.
    pub(super) async fn look(
        &self,
        name: &str,
        place: Place,
        source: ConfigSource,
    ) -> Result<Inspected, String> {
        let (places, launch) = (Arc::clone(&self.places), Arc::clone(&self.launch));
        let name = name.to_owned();
        blocking(move || {
            let default_filename = &|backend: &str| launch.default_filename(backend);
            Inspector {
                places: &places,
                default_filename,
            }
            .inspect(&name, &place, source)
        })
        .await
    }

    async fn look_as_asked(
        &self,
        name: &str,
        options: LoadOptions,
    ) -> Result<Inspected, ServeError> {
        let LoadOptions { config, files } = options;
        match config {
            Some(config) if !files.is_empty() => self.look_at_upload(name, config, files).await,
            None if !files.is_empty() => Err(refusal::files_without_config(name)),
            Some(config) => {
                self.look_in_repository(name, ConfigSource::Given(config))
                    .await
            }
            None => self.look_in_repository(name, ConfigSource::File).await,
        }
    }

    async fn look_in_repository(
        &self,
        name: &str,
        source: ConfigSource,
    ) -> Result<Inspected, ServeError> {
        let mut catalog = self
            .list()
            .await
            .map_err(|reason| refusal::unreadable(name, &reason))?;
        let found = catalog.remove(name).ok_or_else(|| refusal::absent(name))?;
        let from_file = matches!(source, ConfigSource::File);
        let looked = match found.place {
            Ok(place) => self.look(name, place, source).await,
            Err(reason) => Err(reason),
        };
        looked.map_err(|reason| {
            // What a client sent is the client's fault; what lies on the disk is the model's.
            let failure = if from_file {
                self.suffer(name, reason)
            } else {
                Failure::Model {
                    model: name.to_owned(),
                    reason,
                }
            };
            refusal::load_failed(name, &[failure])
        })
    }

    async fn look_at_upload(
        &self,
        name: &str,
        config: String,
        files: Vec<(String, bytes::Bytes)>,
    ) -> Result<Inspected, ServeError> {
        let limit = self.options.max_upload;
        let written = tokio::task::spawn_blocking(move || upload::write(&files, limit)).await;
        let scratch = written.unwrap_or(Err(ServeError::Exiting))?;
        let path = scratch.path().to_owned();
        let place = Place {
            path,
            layout: Layout::Versioned,
            naming: Naming::Directory,
        };
        let looked = self.look(name, place, ConfigSource::Given(config)).await;
        let failed = |reason| Failure::Model {
            model: name.to_owned(),
            reason,
        };
        let looked = looked.map_err(|reason| refusal::load_failed(name, &[failed(reason)]))?;
        Ok(Inspected {
            scratch: Some(Arc::new(scratch)),
            ..looked
        })
    }

    pub(super) fn check_running(&self) -> Result<(), ServeError> {
        match self.board.load().phase {
            Phase::Starting | Phase::Started => Ok(()),
            Phase::Exiting => Err(ServeError::Exiting),
        }
    }
}

/// Runs what waits for the disk off the reactor.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(format!("the repository could not be read: {error}")))
}

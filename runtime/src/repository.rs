//! Which models there are, which state each of their versions is in, and how they come and go.
//!
//! ```text
//!   paths ──list──► names ──inspect──► fingerprints ──decide──► load / rest ──Launch──► board ──find──► requests
//! ```
//!
//! A request reads the board without a lock. Loads of one model happen one after the other; loads of
//! different models side by side. A new version is loaded beside the old one and takes its place only
//! when it is ready, so that a reload never leaves a gap and a failed one changes nothing.

mod board;
mod changes;
mod config_file;
mod index;
mod inspect;
mod jobs;
mod labels;
mod launch;
mod layout;
mod listing;
mod loader;
mod looks;
mod model;
mod names;
mod options;
mod refusal;
mod rounds;
mod stamp;
mod state;
mod turns;
mod upload;
mod versions;

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub use index::{IndexEntry, IndexState};
pub use launch::{Launch, VersionSource};
pub use options::{
    Autocomplete, ControlMode, Dependents, Listing, LoadOptions, Options, Readiness,
};
pub use refusal::Failure;

use crate::error::ServeError;
use jobs::Jobs;
use options::Places;

/// The model repository.
pub struct Repository<L: Launch> {
    jobs: Arc<Jobs<L>>,
}

/// A version that answers requests.
#[derive(Debug)]
pub struct Serving<S> {
    /// Its model.
    pub model: String,
    /// Its number.
    pub version: u64,
    /// What answers.
    pub served: Arc<S>,
}

impl<L: Launch> Repository<L> {
    /// Looks through the paths, which it never writes to. Loads nothing yet.
    ///
    /// # Errors
    /// A path cannot be read, or `model_name` can be nobody's name. Blocks on the file system.
    pub fn new(
        paths: &[PathBuf],
        model_name: Option<String>,
        options: Options,
        launch: L,
    ) -> Result<Self, ServeError> {
        if let Some(name) = &model_name {
            names::check(name)?;
        }
        let places = Places {
            paths: paths.to_vec(),
            model_name,
            config_name: options.config_name.clone(),
            autocomplete: options.autocomplete,
        };
        let catalog = listing::list(&places).map_err(refusal::unreadable_paths)?;
        let jobs = Jobs::new(places, options, launch);
        jobs.board.edit(|board| board.learn(&catalog));
        Ok(Self {
            jobs: Arc::new(jobs),
        })
    }

    /// Makes the initial loads, as the control mode has them. Afterwards the repository counts as
    /// started, whatever failed: whether the process goes on (`--exit-on-error`) is the caller's to say.
    ///
    /// # Errors
    /// Every load that failed.
    pub async fn start(&self) -> Result<(), Vec<Failure>> {
        let failures = self.jobs.start().await;
        if failures.is_empty() {
            Ok(())
        } else {
            Err(failures)
        }
    }

    /// What answers requests for that model and version; "" is the highest ready version. Takes no
    /// lock and allocates nothing unless it fails.
    ///
    /// # Errors
    /// Which of the ways of not being there it is.
    pub fn find(&self, name: &str, version: &str) -> Result<Arc<L::Served>, ServeError> {
        self.jobs.board.load().find(name, version)
    }

    /// The model's ready versions, in ascending order.
    ///
    /// # Errors
    /// The model is unknown, or none of its versions is ready.
    pub fn model(&self, name: &str) -> Result<Vec<(u64, Arc<L::Served>)>, ServeError> {
        let board = self.jobs.board.load();
        board.find(name, "")?;
        let serving = board
            .model(name)
            .into_iter()
            .flat_map(model::Model::serving);
        Ok(serving
            .map(|(version, served)| (version, Arc::clone(served)))
            .collect())
    }

    /// Whether a model of that name is in the repository or was ever loaded.
    #[must_use]
    pub fn known(&self, name: &str) -> bool {
        self.jobs.board.load().model(name).is_some()
    }

    /// Every version that answers requests, in order of name and version.
    #[must_use]
    pub fn serving(&self) -> Vec<Serving<L::Served>> {
        let board = self.jobs.board.load();
        let of = |model: &model::Model<L::Served>| {
            let serving = model.serving().map(|(version, served)| Serving {
                model: model.name().to_owned(),
                version,
                served: Arc::clone(served),
            });
            serving.collect::<Vec<_>>()
        };
        let mut serving: Vec<_> = board.models().flat_map(of).collect();
        serving
            .sort_by(|left, right| (&left.model, left.version).cmp(&(&right.model, right.version)));
        serving
    }

    /// What loads its versions.
    #[must_use]
    pub fn launch(&self) -> &L {
        &self.jobs.launch
    }

    /// Whether the server may say that it is ready.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.jobs.board.load().ready(self.jobs.options.readiness)
    }

    /// Wakes whenever any model or version changes its state, or the repository its readiness. The
    /// number counts the changes.
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.jobs.board.changes()
    }

    /// Every known model and version with its state, in order of name and version. Directories that
    /// appeared since the last look are not in it; see [`Repository::refresh`].
    #[must_use]
    pub fn index(&self, listing: Listing) -> Vec<IndexEntry> {
        self.jobs.board.load().index(listing)
    }

    /// Looks for models that appeared in the repository, so that the index knows them.
    ///
    /// # Errors
    /// A path cannot be read.
    pub async fn refresh(&self) -> Result<(), ServeError> {
        self.jobs
            .list()
            .await
            .map(drop)
            .map_err(refusal::unreadable_paths)
    }

    /// Loads a model, or loads again what changed of it. Comes back when it serves.
    ///
    /// # Errors
    /// The reason, in Triton's words where it has some. What served before goes on.
    ///
    /// # Cancellation
    /// Once it is the model's turn the load goes on without its caller.
    pub async fn load(&self, name: &str, options: LoadOptions) -> Result<(), ServeError> {
        self.check_asked(name)?;
        self.jobs.load(name, options).await
    }

    /// Takes a model out of service. Comes back when nothing new is accepted; what was accepted is
    /// answered in the background.
    ///
    /// # Errors
    /// The model is not the client's to unload. One that nobody knows is no error, as in Triton.
    pub async fn unload(&self, name: &str, dependents: Dependents) -> Result<(), ServeError> {
        match dependents {
            // Only ensembles depend on models, and there are none.
            Dependents::Keep | Dependents::Unload => {}
        }
        self.check_asked(name)?;
        self.jobs.unload(name).await
    }

    /// Looks at the repository again and again, in mode [`ControlMode::Poll`], until `shutdown`.
    /// Returns at once in the other modes.
    pub async fn poll(self: Arc<Self>, shutdown: CancellationToken) {
        self.jobs.poll(&shutdown).await;
    }

    /// Puts everything to rest: nothing loads any more, what was accepted is answered, and no task is
    /// left. The caller bounds how long that may take.
    pub async fn retire_all(&self) {
        self.jobs.retire_all().await;
    }

    fn check_asked(&self, name: &str) -> Result<(), ServeError> {
        match self.jobs.options.control {
            ControlMode::Explicit { .. } => names::check(name),
            ControlMode::None | ControlMode::Poll(_) => Err(refusal::not_explicit()),
        }
    }
}

impl<L: Launch> std::fmt::Debug for Repository<L> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Repository")
            .field("index", &self.index(Listing::All))
            .finish()
    }
}

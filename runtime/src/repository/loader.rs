//! Runs a limited number of loads on separate threads, and catches their panics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::Semaphore;

use super::inspect::Inspected;
use super::labels;
use super::launch::{Launch, VersionSource};
use crate::backend::LoadError;
use crate::error::panic_text;
use crate::repository::on_disk::options::RepositoryOptions;

/// Loads model versions within limits on threads and retries.
#[derive(Debug)]
pub(super) struct Loader<L> {
    launch: Arc<L>,
    threads: Semaphore,
    retries: u32,
}

impl<L: Launch> Loader<L> {
    /// Creates a loader with the threads and retries in the options.
    pub(super) fn new(launch: Arc<L>, options: &RepositoryOptions) -> Self {
        let threads = Semaphore::new(options.load_threads.get());
        Self { launch, threads, retries: options.retries }
    }

    /// Loads one version, once a thread is free.
    ///
    /// # Errors
    /// The reason, for the index and the client.
    pub(super) async fn load(&self, name: &str, version: u64, from: &Inspected) -> Result<L::Served, String> {
        // The semaphore is never closed, so this is never an error.
        let _thread = self.threads.acquire().await;
        let mut attempts_left = self.retries;
        loop {
            match self.attempt(name, version, from).await {
                Err(reason) if attempts_left > 0 => {
                    attempts_left -= 1;
                    tracing::warn!(model = name, version, reason, attempts_left, "load failed, retrying");
                }
                outcome => return outcome,
            }
        }
    }

    async fn attempt(&self, name: &str, version: u64, from: &Inspected) -> Result<L::Served, String> {
        let Some(fingerprint) = from.versions.fingerprints.get(&version) else {
            return Err(format!("no version {version}"));
        };
        let source = VersionSource {
            name: name.to_owned(),
            version,
            model_dir: from.dir.clone(),
            path: fingerprint.path.clone(),
            config: Arc::clone(&from.config),
            labels: std::collections::BTreeMap::new(),
        };
        let launch = Arc::clone(&self.launch);
        let thread = tokio::task::spawn_blocking(move || launch_guarded(launch.as_ref(), source));
        thread.await.unwrap_or_else(|_| Err("the server stopped while the model loaded".to_owned()))
    }
}

/// Launches a version; a panic in a model library becomes a failed load.
fn launch_guarded<L: Launch>(launch: &L, source: VersionSource) -> Result<L::Served, String> {
    let launched = || {
        let source = labels::read(source)?;
        if !source.path.exists() {
            return Err(LoadError::File(format!("no file '{}'", source.path.display())));
        }
        launch.launch(&source)
    };
    match catch_unwind(AssertUnwindSafe(launched)) {
        Ok(outcome) => outcome.map_err(|error| error.to_string()),
        Err(payload) => Err(format!("the model library panicked: {}", panic_text(payload.as_ref()))),
    }
}

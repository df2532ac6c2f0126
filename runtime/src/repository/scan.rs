//! Reads the directories of the repository off the reactor.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::inspect::{ConfigSource, Inspected, Inspector, Stability};
use super::launch::Launch;
use super::upload;
use crate::error::ServeError;
use crate::repository::on_disk::catalog::{self, Catalog, ModelLocation, Naming};
use crate::repository::on_disk::layout::Layout;
use crate::repository::on_disk::options::ScanOptions;

/// Lists and inspects models on blocking threads.
pub(super) struct Scanner<L> {
    options: Arc<ScanOptions>,
    launch: Arc<L>,
}

impl<L: Launch> Scanner<L> {
    pub(super) fn new(options: ScanOptions, launch: Arc<L>) -> Self {
        Self { options: Arc::new(options), launch }
    }

    /// Lists the models that the repository paths hold now.
    ///
    /// # Errors
    /// If a path cannot be read.
    pub(super) async fn list(&self) -> Result<Catalog, String> {
        let options = Arc::clone(&self.options);
        blocking(move || catalog::list(&options)).await
    }

    /// True if the only model has another name than its directory.
    pub(super) fn renames(&self) -> bool {
        self.options.model_name.is_some()
    }

    /// Inspects the current state of the model at `location`, ready to be loaded. Versions in service whose files still
    /// exist are included.
    ///
    /// # Errors
    /// The reason, for the index and the client.
    pub(super) async fn inspect(
        &self,
        name: &str,
        location: ModelLocation,
        source: ConfigSource,
        in_service: BTreeSet<u64>,
    ) -> Result<Inspected, String> {
        let (options, launch) = (Arc::clone(&self.options), Arc::clone(&self.launch));
        let name = name.to_owned();
        blocking(move || {
            let default_filename = &|backend: &str| launch.default_filename(backend);
            Inspector { options: &options, in_service: &in_service, default_filename }.inspect(&name, &location, source)
        })
        .await
    }

    /// Returns the stability of a model's files since their inspection.
    pub(super) async fn stability(&self, since: &Inspected) -> Stability {
        let directory_stamps = since.directory_stamps.clone();
        let look = blocking(move || Ok(Inspected::stability(&directory_stamps)));
        look.await.unwrap_or(Stability::Changed)
    }

    /// True if a repository path has a directory of this name, whatever it contains.
    pub(super) async fn has_directory(&self, name: &str) -> bool {
        let (options, name) = (Arc::clone(&self.options), name.to_owned());
        let has = move || Ok(options.paths.iter().any(|path| path.join(&name).is_dir()));
        blocking(has).await.unwrap_or(false)
    }

    /// Inspects the model uploaded in a load call; its files are kept as long as the result.
    ///
    /// # Errors
    /// The outer error if the files cannot be stored, the inner error if they are not a model.
    pub(super) async fn inspect_upload(
        &self,
        name: &str,
        config: String,
        (files, max_bytes): (Vec<(String, Bytes)>, usize),
    ) -> Result<Result<Inspected, String>, ServeError> {
        let written = tokio::task::spawn_blocking(move || upload::write(&files, max_bytes)).await;
        let uploaded = written.unwrap_or(Err(ServeError::Exiting))?;
        let location =
            ModelLocation { path: uploaded.path().to_owned(), layout: Layout::Versioned, naming: Naming::Directory };
        let inspected = self.inspect(name, location, ConfigSource::Given(config), BTreeSet::new()).await;
        Ok(inspected.map(|inspected| Inspected { uploaded: Some(Arc::new(uploaded)), ..inspected }))
    }
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(format!("the repository could not be read: {error}")))
}

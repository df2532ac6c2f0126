//! Reads the repository's directories, off the reactor.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use super::catalog::{self, Catalog, ModelLocation, Naming};
use super::inspect::{ConfigSource, Inspected, Inspector, Stillness};
use super::launch::Launch;
use super::layout::Layout;
use super::options::ScanOptions;
use super::upload;
use crate::error::ServeError;

/// Lists and inspects models on blocking threads.
pub(super) struct Scanner<L> {
    options: Arc<ScanOptions>,
    launch: Arc<L>,
}

impl<L: Launch> Scanner<L> {
    pub(super) fn new(options: ScanOptions, launch: Arc<L>) -> Self {
        Self { options: Arc::new(options), launch }
    }

    /// The models that the repository paths hold now.
    ///
    /// # Errors
    /// A path cannot be read.
    pub(super) async fn list(&self) -> Result<Catalog, String> {
        let options = Arc::clone(&self.options);
        blocking(move || catalog::list(&options)).await
    }

    /// The model at `location` as it is now, ready to be loaded. Versions that serve and are still there
    /// are inspected too.
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

    /// Whether a model's files lay still since they were inspected.
    pub(super) async fn stillness(&self, since: &Inspected) -> Stillness {
        let surroundings = since.surroundings.clone();
        let look = blocking(move || Ok(Inspected::stillness(&surroundings)));
        look.await.unwrap_or(Stillness::Moved)
    }

    /// True if a repository path has a directory of that name, whatever is in it.
    pub(super) async fn has_directory(&self, name: &str) -> bool {
        let (options, name) = (Arc::clone(&self.options), name.to_owned());
        let has = move || Ok(options.paths.iter().any(|path| path.join(&name).is_dir()));
        blocking(has).await.unwrap_or(false)
    }

    /// The model that a load call brings along; its files are kept as long as the result.
    ///
    /// # Errors
    /// The outer one if the files cannot be stored, the inner one if they are no model.
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

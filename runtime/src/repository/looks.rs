//! Looking at what lies in the repository, off the reactor.

use std::sync::Arc;

use bytes::Bytes;

use super::inspect::{ConfigSource, Inspected, Inspector};
use super::jobs::Jobs;
use super::launch::Launch;
use super::layout::Layout;
use super::listing::{self, Catalog, Naming, Place};
use super::options::LoadOptions;
use super::refusal::{self, Failure};
use super::upload;
use crate::error::ServeError;

impl<L: Launch> Jobs<L> {
    /// Which models there are now. The board learns of them.
    ///
    /// # Errors
    /// A path cannot be read.
    pub(super) async fn list(&self) -> Result<Catalog, String> {
        let places = Arc::clone(&self.places);
        let catalog = blocking(move || listing::list(&places)).await?;
        if !self.board.load().knows(&catalog) {
            self.board.edit(|board| board.learn(&catalog));
        }
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

    /// What a load call is about: files it brings, or what lies in the repository.
    pub(super) async fn look_as_asked(
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
        files: Vec<(String, Bytes)>,
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
}

/// Runs what waits for the disk off the reactor.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(format!("the repository could not be read: {error}")))
}

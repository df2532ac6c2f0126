//! Services declared in YAML files that are watched for changes.

mod absent;
mod collect;
mod event_filter;
mod file_kind;
mod generations;
mod manifest_file;
mod manifest_set;
mod model_stamps;
mod object_errors;
mod object_key;
mod revision_file;
mod stored_rollout;
mod watched_folders;
mod watcher;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::ServiceName;
use weir_crds::InferenceServiceStatus;

use crate::clock;
use crate::declaration::Declaration;
use crate::error::ControllerError;
use crate::event::{Event, EventType, Subject};
use crate::history::History;
use crate::manifest::validate::Platform;
use crate::source::{Source, Stored};
use generations::{CreationTimes, creation_times};
use manifest_set::ManifestSet;
use revision_file::{Histories, RevisionFile};
use watcher::Watcher;

/// Statuses of all services by name.
pub type Statuses = BTreeMap<ServiceName, Arc<InferenceServiceStatus>>;

/// Files and directories that declare services. Clones share them; dropping the last clone ends the watch.
#[derive(Clone, Debug)]
pub struct Files {
    declaration: watch::Receiver<Arc<Declaration>>,
    statuses: watch::Sender<Arc<Statuses>>,
    histories: Arc<Mutex<Histories>>,
    revision_file: Option<Arc<RevisionFile>>,
    _watching: Arc<AbortOnDropHandle<()>>,
}

impl Files {
    /// Reads and watches these files, and the `.yaml`, `.yml` and `.json` files of these directories.
    /// Must be called within a tokio runtime.
    ///
    /// Errors are reported in [`Declaration::problems`]. An object with errors is left out or, after an edit, keeps its
    /// last valid version; other objects are not affected. While a file has errors, none of its objects is deleted, and
    /// no object that the errors may hide. An object is deleted once it was missing from files that did not change for
    /// two seconds.
    ///
    /// # Errors
    /// [`ControllerError::Read`] for a path that does not exist, [`ControllerError::Watch`] when changes cannot be
    /// watched.
    pub fn open(paths: &[PathBuf], platform: Platform) -> Result<Self, ControllerError> {
        Self::with_times(paths, platform, CreationTimes::new())
    }

    /// Opens the files like [`Self::open`] after a restart: services get their creation times from the file of
    /// [`Self::numbered_in`]. A service that the file does not list is new, and so are all if it cannot be read.
    ///
    /// # Errors
    /// The same errors as [`Self::open`].
    pub fn reopen(paths: &[PathBuf], platform: Platform, numbers: &Path) -> Result<Self, ControllerError> {
        Self::with_times(paths, platform, RevisionFile::creation_times(numbers))
    }

    fn with_times(paths: &[PathBuf], platform: Platform, created: CreationTimes) -> Result<Self, ControllerError> {
        let mut watcher = Watcher::start(paths)?;
        let mut manifests = ManifestSet::new(paths, platform, created, clock::now());
        watcher.update(&manifests);
        let declaration = manifests.first()?;
        for object in &declaration.ignored_objects {
            tracing::info!("{object} is ignored: Weir serves no objects of this kind");
        }
        let (sender, declaration) = watch::channel(Arc::new(declaration));
        let models = model_stamps::follow(manifests.models(), watcher.changed());
        let following = watcher::follow(watcher, manifests, sender);
        let watching = tokio::spawn(async move {
            tokio::select! {
                () = following => {}
                () = models => {}
            }
        });
        Ok(Self {
            declaration,
            statuses: watch::Sender::default(),
            histories: Arc::default(),
            revision_file: None,
            _watching: Arc::new(AbortOnDropHandle::new(watching)),
        })
    }

    /// Stores the revision numbers, the rollouts in progress and the services' creation times in this file. After a
    /// restart no revision gets the name of another one, and no rollout is lost. A damaged file counts as empty, and a
    /// file that cannot be written causes a warning.
    #[must_use]
    pub fn numbered_in(mut self, path: PathBuf) -> Self {
        let (file, histories) = RevisionFile::open(path);
        *self.histories.lock() = histories;
        // Drops the creation times of services that were deleted while no controller ran.
        file.write(|| latest(&self.histories, &self.declaration));
        self.revision_file = Some(Arc::new(file));
        self
    }

    /// Writes the revision numbers on a blocking thread.
    async fn save(&self) {
        let Some(file) = self.revision_file.clone() else {
            return;
        };
        let (histories, declaration) = (Arc::clone(&self.histories), self.declaration.clone());
        let written = tokio::task::spawn_blocking(move || {
            file.write(|| latest(&histories, &declaration));
        });
        if let Err(error) = written.await {
            tracing::error!(%error, "the task that saves the revision numbers panicked");
        }
    }

    /// Watches the statuses of all services.
    #[must_use]
    pub fn statuses(&self) -> watch::Receiver<Arc<Statuses>> {
        self.statuses.subscribe()
    }
}

/// Returns the present histories and creation times, as they are to be restored after a restart.
fn latest(histories: &Mutex<Histories>, declaration: &watch::Receiver<Arc<Declaration>>) -> (Histories, CreationTimes) {
    let created = creation_times(&declaration.borrow());
    (histories.lock().clone(), created)
}

#[async_trait]
impl Source for Files {
    fn watch(&self) -> watch::Receiver<Arc<Declaration>> {
        self.declaration.clone()
    }

    async fn load(&self, service: &ServiceName) -> Result<Stored, ControllerError> {
        Ok(Stored { history: self.histories.lock().get(service).cloned(), status: Arc::default() })
    }

    async fn store(&self, service: &ServiceName, history: &Arc<History>) -> Result<(), ControllerError> {
        self.histories.lock().insert(service.clone(), history.clone());
        self.save().await;
        Ok(())
    }

    async fn publish_status(
        &self,
        service: &ServiceName,
        status: Arc<InferenceServiceStatus>,
    ) -> Result<(), ControllerError> {
        self.statuses.send_modify(|statuses| {
            Arc::make_mut(statuses).insert(service.clone(), status);
        });
        Ok(())
    }

    async fn publish_event(&self, service: &ServiceName, event: Event) -> Result<(), ControllerError> {
        match (event.kind, event.subject) {
            // The local cluster logs failures of replicas itself.
            (EventType::Normal, _) | (EventType::Warning, Subject::Replicas) => {
                tracing::info!(%service, "{event}");
            }
            (EventType::Warning, Subject::Service) => tracing::warn!(%service, "{event}"),
        }
        Ok(())
    }

    async fn forget(&self, service: &ServiceName) -> Result<(), ControllerError> {
        self.histories.lock().remove(service);
        self.save().await;
        self.statuses.send_modify(|statuses| {
            Arc::make_mut(statuses).remove(service);
        });
        Ok(())
    }
}

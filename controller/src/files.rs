//! Services declared in files: YAML, watched for changes.

mod collect;
mod generations;
mod manifest_set;
mod revision_file;
mod watched_folders;
mod watcher;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::ServiceName;
use weir_crds::InferenceServiceStatus;

use crate::source::{Declaration, Event, EventKind, Source, Subject};
use crate::{ControllerError, History};
use manifest_set::ManifestSet;
use revision_file::RevisionFile;
use watcher::Watcher;

/// The namespace of objects that name none, kubectl's.
pub const DEFAULT_NAMESPACE: &str = "default";

/// What is remembered of all services.
type Histories = BTreeMap<ServiceName, Arc<History>>;

/// The statuses of all services.
pub type Statuses = BTreeMap<ServiceName, Arc<InferenceServiceStatus>>;

/// Files and folders that declare services. Clones share them; with the last clone watching ends.
#[derive(Clone, Debug)]
pub struct Files {
    declared: watch::Receiver<Arc<Declaration>>,
    statuses: watch::Sender<Arc<Statuses>>,
    histories: Arc<Mutex<Histories>>,
    numbers: Option<Arc<RevisionFile>>,
    _watching: Arc<AbortOnDropHandle<()>>,
}

impl Files {
    /// Reads these files, and the `.yaml`, `.yml` and `.json` files of these folders, and watches them.
    /// Must be called within a tokio runtime.
    ///
    /// Afterwards an edit that breaks a file leaves that file's last good state in force, and
    /// [`Declaration::problems`] says what is wrong with it.
    ///
    /// # Errors
    /// [`ControllerError::Read`] for a path that is not there, [`ControllerError::InvalidManifests`] for what is
    /// wrong in the files now, [`ControllerError::Watch`].
    pub fn open(paths: &[PathBuf]) -> Result<Self, ControllerError> {
        let mut watcher = Watcher::start(paths)?;
        let mut sources = ManifestSet::new(paths);
        watcher.look(&sources);
        let declaration = sources.first()?;
        for object in &declaration.ignored_objects {
            tracing::info!("{object} is passed over: nobody here looks at it");
        }
        let (sender, declared) = watch::channel(Arc::new(declaration));
        let watching = tokio::spawn(watcher::follow(watcher, sources, sender));
        Ok(Self {
            declared,
            statuses: watch::Sender::default(),
            histories: Arc::default(),
            numbers: None,
            _watching: Arc::new(AbortOnDropHandle::new(watching)),
        })
    }

    /// Keeps the numbers of revisions in this file, so that a name does not stand for something else after a
    /// restart. A damaged file is as none; one that cannot be written is warned of.
    #[must_use]
    pub fn numbered_in(mut self, path: PathBuf) -> Self {
        let (numbers, histories) = RevisionFile::open(path);
        *self.histories.lock() = histories;
        self.numbers = Some(Arc::new(numbers));
        self
    }

    /// Writes the numbers, away from the tasks that may not block.
    async fn keep(&self) {
        let Some(numbers) = self.numbers.clone() else {
            return;
        };
        let histories = Arc::clone(&self.histories);
        let written = tokio::task::spawn_blocking(move || {
            let histories = histories.lock().clone();
            numbers.write(&histories);
        });
        if let Err(error) = written.await {
            tracing::error!(%error, "writing the numbers of revisions broke off");
        }
    }

    /// What is known of every service, and every change.
    #[must_use]
    pub fn statuses(&self) -> watch::Receiver<Arc<Statuses>> {
        self.statuses.subscribe()
    }
}

#[async_trait]
impl Source for Files {
    fn watch(&self) -> watch::Receiver<Arc<Declaration>> {
        self.declared.clone()
    }

    async fn load(&self, service: &ServiceName) -> Result<Option<Arc<History>>, ControllerError> {
        Ok(self.histories.lock().get(service).cloned())
    }

    async fn store(
        &self,
        service: &ServiceName,
        history: &Arc<History>,
    ) -> Result<(), ControllerError> {
        self.histories
            .lock()
            .insert(service.clone(), history.clone());
        self.keep().await;
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

    async fn publish_event(
        &self,
        service: &ServiceName,
        event: Event,
    ) -> Result<(), ControllerError> {
        match (event.kind, event.subject) {
            // Who watches this machine's replicas is told of them already.
            (EventKind::Normal, _) | (EventKind::Warning, Subject::Replicas) => {
                tracing::info!(%service, "{event}");
            }
            (EventKind::Warning, Subject::Service) => tracing::warn!(%service, "{event}"),
        }
        Ok(())
    }

    async fn forget(&self, service: &ServiceName) -> Result<(), ControllerError> {
        self.histories.lock().remove(service);
        self.keep().await;
        self.statuses.send_modify(|statuses| {
            Arc::make_mut(statuses).remove(service);
        });
        Ok(())
    }
}

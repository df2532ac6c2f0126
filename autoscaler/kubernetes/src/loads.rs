//! Loads of all services, kept up to date.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{LatestReports, RevisionName, ServiceName, Snapshot, nearest};

use crate::clock;
use crate::window::{ReportWindow, WindowedLoad};

/// Loads of all services, kept up to date by a task. Clones share the task, which ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Loads {
    windows: watch::Receiver<ReportWindow>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    began: Instant,
    _following: Arc<AbortOnDropHandle<()>>,
}

/// Error for a load that is not available.
#[derive(Debug, thiserror::Error, PartialEq)]
pub(crate) enum LoadError {
    /// There is no service of this name.
    #[error("there is no InferenceService {name:?} in namespace {namespace:?}{nearest}")]
    UnknownService {
        namespace: String,
        name: String,
        /// The text `: did you mean …?`, or empty.
        nearest: String,
    },
    /// No gateway has reported for long enough yet.
    #[error("no gateway has reported the load of {0} yet: try again in a few seconds")]
    NotMeasured(String),
}

impl Loads {
    /// Follows the reports and the existing revisions. Must be called within a tokio runtime.
    #[must_use]
    pub fn follow(reports: watch::Receiver<Arc<LatestReports>>, snapshots: watch::Receiver<Arc<Snapshot>>) -> Self {
        let began = clock::now();
        let (publish, windows) = watch::channel(ReportWindow::default());
        let following = tokio::spawn(update(reports, publish, began));
        Self { windows, snapshots, began, _following: Arc::new(AbortOnDropHandle::new(following)) }
    }

    /// Returns the load of a service, summed over its revisions.
    ///
    /// # Errors
    /// [`LoadError`] if the service does not exist or was not measured yet.
    pub(crate) fn of_service(&self, service: &ServiceName) -> Result<WindowedLoad, LoadError> {
        let snapshot = self.snapshots.borrow().clone();
        let revisions: Vec<_> = snapshot.revisions_of(service).map(|r| &r.name).collect();
        if revisions.is_empty() {
            return Err(unknown(&snapshot, service));
        }
        let load = self.load(revisions.into_iter());
        load.ok_or_else(|| LoadError::NotMeasured(service.name().to_owned()))
    }

    /// Returns the load of a revision.
    ///
    /// # Errors
    /// [`LoadError::NotMeasured`] if no gateway has reported for long enough yet.
    pub(crate) fn of_revision(&self, revision: &RevisionName) -> Result<WindowedLoad, LoadError> {
        let load = self.load(std::iter::once(revision));
        load.ok_or_else(|| LoadError::NotMeasured(revision.to_string()))
    }

    /// Returns the services of a namespace.
    pub(crate) fn services(&self, namespace: &str) -> Vec<ServiceName> {
        let snapshot = self.snapshots.borrow().clone();
        services(&snapshot, namespace).cloned().collect()
    }

    /// Waits for the next reports; returns false once there are no more.
    pub(crate) async fn changed(&mut self) -> bool {
        self.windows.changed().await.is_ok()
    }

    fn load<'a>(&self, revisions: impl Iterator<Item = &'a RevisionName> + Clone) -> Option<WindowedLoad> {
        let now = self.began.elapsed();
        self.windows.borrow().load(revisions, now)
    }
}

async fn update(
    mut reports: watch::Receiver<Arc<LatestReports>>,
    publish: watch::Sender<ReportWindow>,
    began: Instant,
) {
    loop {
        let latest = reports.borrow_and_update().clone();
        publish.send_modify(|window| window.observe(&latest, began.elapsed()));
        if reports.changed().await.is_err() {
            return;
        }
    }
}

fn services<'a>(snapshot: &'a Snapshot, namespace: &'a str) -> impl Iterator<Item = &'a ServiceName> {
    let all = snapshot.revisions.keys().map(RevisionName::service);
    let mut last = None;
    all.filter(move |service| service.namespace() == namespace && last.replace(*service) != Some(*service))
}

fn unknown(snapshot: &Snapshot, service: &ServiceName) -> LoadError {
    let names = services(snapshot, service.namespace()).map(ServiceName::name);
    let nearest = nearest(names, service.name());
    LoadError::UnknownService {
        namespace: service.namespace().to_owned(),
        name: service.name().to_owned(),
        nearest: nearest.map(|near| format!(": did you mean {near:?}?")).unwrap_or_default(),
    }
}

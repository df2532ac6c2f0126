//! Handle on the cluster behind an API server.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{ClusterError, Directory, Gateway, LatestReports, ServiceName, Snapshot};
use weir_crds::StorageContainer;

use crate::Options;
use crate::view::drift::WrittenObjects;
use crate::view::kept_revisions::KeptRevisions;
use crate::view::notes::Notes;
use crate::view::observed::{Change, NotedReplicas, Observed};
use crate::view::watching::{self, Published};

/// Capacity of the channel that carries writes to the watch task; when it is full, writers wait.
const WRITES: usize = 64;

/// Cluster behind an API server. Clones share it; dropping the last one ends the watches.
#[derive(Clone)]
pub struct Kubernetes {
    pub(crate) client: Client,
    pub(crate) options: Arc<Options>,
    /// Observations of the watches, and of the responses to writes.
    pub(crate) notes: Notes,
    pub(crate) kept: KeptRevisions,
    /// InferenceServices, if this process watches them.
    pub(crate) services: Arc<Mutex<Option<Arc<dyn KnownServices>>>>,
    /// Reports of the gateways, if this process scales.
    pub(crate) reports: Option<watch::Receiver<Arc<LatestReports>>>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    gateways: watch::Receiver<Arc<[Gateway]>>,
    pub(crate) writes: mpsc::Sender<Change>,
    _watching: Arc<AbortOnDropHandle<()>>,
}

impl Kubernetes {
    /// Watches the cluster; returns when everything that exists is known. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] when the API server does not answer, [`ClusterError::Denied`] when it denies
    /// access.
    pub async fn connect(client: Client, options: Options) -> Result<Self, ClusterError> {
        let generation = watching::newest_generation(&client, &options).await?;
        let (publish, mut snapshots) = watch::channel(Arc::<Snapshot>::default());
        let (publish_gateways, gateways) = watch::channel(Arc::from([]));
        let to = Published { snapshots: publish, gateways: publish_gateways };
        let (writes, written) = mpsc::channel(WRITES);
        let notes = Notes::default();
        let observed = Observed::new(&options, generation, notes.clone());
        let run = watching::run(client.clone(), options.clone(), observed, written, to);
        let watching = AbortOnDropHandle::new(tokio::spawn(run));
        let synced = snapshots.changed().await;
        synced.map_err(|ended| ClusterError::Unavailable {
            what: "the Kubernetes API server".to_owned(),
            source: ended.into(),
        })?;
        Ok(Self {
            client,
            options: options.into(),
            notes,
            kept: KeptRevisions::default(),
            services: Arc::default(),
            reports: None,
            writes,
            snapshots,
            gateways,
            _watching: Arc::new(watching),
        })
    }

    /// Returns the options given to [`Self::connect`].
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Uses these reports of the gateways to choose the replicas that a scale-in ends: those with the fewest requests
    /// first.
    #[must_use]
    pub fn scaling_in_by(mut self, reports: watch::Receiver<Arc<LatestReports>>) -> Self {
        self.reports = Some(reports);
        self
    }

    /// Looks InferenceServices up in this watch instead of asking the API server.
    pub fn know_services(&self, services: Arc<dyn KnownServices>) {
        *self.services.lock() = Some(services);
    }

    /// Records the objects written for a service, so that later changes by other clients are detected as drift.
    pub(crate) async fn wrote(&self, service: &ServiceName, objects: Option<WrittenObjects>) {
        self.notes.drift.lock().wrote(service, objects);
        // The channel is closed only when the watch task has ended, and then no reader is left.
        let _ = self.writes.send(Change::Wrote).await;
    }

    /// Publishes a number of replicas that the API server has stored.
    pub(crate) async fn noted(&self, replicas: NotedReplicas) {
        // The channel is closed only when the watch task has ended, and then no reader is left.
        let _ = self.writes.send(Change::Scaled(replicas)).await;
    }

    /// Watches the gateways that accept requests. The caller follows their reports.
    #[must_use]
    pub fn gateways(&self) -> watch::Receiver<Arc<[Gateway]>> {
        self.gateways.clone()
    }
}

impl Directory for Kubernetes {
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }
}

impl std::fmt::Debug for Kubernetes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubernetes").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Objects that this process watches, so that they need not be requested.
pub trait KnownServices: Send + Sync {
    /// Returns the metadata of the InferenceService of this name; None if there is none.
    fn metadata(&self, service: &ServiceName) -> Option<ObjectMeta>;

    /// Returns the ClusterStorageContainers in the order in which they are tried.
    fn storage_containers(&self) -> Vec<StorageContainer>;
}

//! Handle to the cluster on this machine.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use weir_cluster::{
    Applied, Apply, ClusterError, Desired, Directory, Gateways, HeldLease, LatestReports, Lease, Leases, Reports,
    RevisionName, Scale, ServiceName, Snapshot,
};

use crate::actor::{self, Request, unavailable};
use crate::log::Printer;
use crate::options::Options;

/// Capacity of the request channel; callers wait when it is full. The actor handles a request within microseconds.
const WAITING: usize = 16;

/// The cluster on this machine. Clones share it; dropping the last one kills every replica at once. [`Local::stop`]
/// lets replicas finish their requests.
#[derive(Clone, Debug)]
pub struct Local {
    requests: mpsc::Sender<Request>,
    snapshots: watch::Receiver<Arc<Snapshot>>,
    gateways: Gateways,
    leases: Leases,
}

impl Local {
    /// Starts an empty cluster. Must be called within the tokio runtime on which the cluster will run.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] when the log directory or the logging thread cannot be created.
    pub fn start(options: Options) -> Result<Self, ClusterError> {
        let logs = options.logs();
        let made = std::fs::create_dir_all(&logs).and_then(|()| Printer::start());
        let printer = made.map_err(|error| ClusterError::Unavailable {
            what: format!("the log directory {}", logs.display()),
            source: error.into(),
        })?;
        let (requests, receiver) = mpsc::channel(WAITING);
        let gateways = Gateways::new();
        let snapshots = actor::spawn(options, printer, receiver, &gateways);
        Ok(Self { requests, snapshots, gateways, leases: Leases::new() })
    }

    /// The gateways in this process; a gateway joins here.
    #[must_use]
    pub fn gateways(&self) -> &Gateways {
        &self.gateways
    }

    /// Stops every replica as a scale-in does, and waits until all have ended: for the longest of their grace periods
    /// and `reserve`. Nothing can be applied afterwards.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] when replicas still run then; dropping the last clone kills them.
    pub async fn stop(&self, reserve: Duration) -> Result<(), ClusterError> {
        let (reply, ended) = oneshot::channel();
        let longest = self.request(|longest| Request::Stop { longest, ended: reply }).await?;
        let timeout = longest.saturating_add(reserve);
        match tokio::time::timeout(timeout, ended).await {
            Ok(ended) => ended.map_err(|_| stopped()),
            Err(_) => Err(unavailable(format!("replicas still run after {timeout:?}"))),
        }
    }

    async fn request<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, ClusterError> {
        let (reply, replied) = oneshot::channel();
        self.requests.send(make(reply)).await.map_err(|_| stopped())?;
        replied.await.map_err(|_| stopped())
    }
}

fn stopped() -> ClusterError {
    unavailable("the cluster has stopped".to_owned())
}

impl Directory for Local {
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.clone()
    }
}

#[async_trait]
impl Apply for Local {
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError> {
        let desired = Box::new(desired);
        self.request(|reply| Request::Apply(desired, reply)).await?
    }

    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError> {
        let service = service.clone();
        self.request(|reply| Request::Forget(service, reply)).await
    }
}

#[async_trait]
impl Scale for Local {
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        let revision = revision.clone();
        self.request(|reply| Request::Scale(revision, replicas, reply)).await?
    }
}

impl Reports for Local {
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>> {
        self.gateways.watch()
    }
}

#[async_trait]
impl Lease for Local {
    async fn acquire(&self, name: &str) -> Result<HeldLease, ClusterError> {
        self.leases.acquire(name).await
    }
}

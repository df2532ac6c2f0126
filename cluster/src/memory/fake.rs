//! A cluster in memory, for tests: no process runs, but the snapshots look as if replicas did.

mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use self::state::State;
use crate::{
    Applied, Apply, ClusterError, Desired, Directory, Failure, Gateways, HeldLease, LatestReports, Lease, Leases,
    Replica, Reports, RevisionName, Scale, ServiceName, Snapshot, Transport,
};

/// Moment at which the replicas of a [`Fake`] become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Immediately, as soon as they are requested.
    Immediate,
    /// Only when the test adds them with [`Fake::put`].
    Manual,
}

/// The cluster in memory. Clones share it.
#[derive(Clone, Debug)]
pub struct Fake {
    state: Arc<Mutex<State>>,
    snapshots: watch::Sender<Arc<Snapshot>>,
    gateways: Gateways,
    leases: Leases,
    _stop: Arc<DropGuard>,
}

impl Fake {
    /// An empty cluster. Must be called within a tokio runtime.
    #[must_use]
    pub fn new(starts: Readiness) -> Self {
        let stop = CancellationToken::new();
        let fake = Self {
            state: Arc::new(Mutex::new(State::new(starts))),
            snapshots: watch::Sender::default(),
            gateways: Gateways::new(),
            leases: Leases::new(),
            _stop: Arc::new(stop.clone().drop_guard()),
        };
        fake.follow_gateways(stop);
        fake
    }

    /// The gateways in front of the cluster; a test joins here as a gateway.
    #[must_use]
    pub fn gateways(&self) -> &Gateways {
        &self.gateways
    }

    /// Returns the current state of the cluster.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.borrow().clone()
    }

    /// Adds a replica, or replaces the one of the same name. The replica need not have been requested.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`] when there is no such revision.
    pub fn put(&self, revision: &RevisionName, replica: Replica) -> Result<(), ClusterError> {
        self.edit(|state| state.put(revision, replica))
    }

    /// Removes a replica, as if its machine had failed.
    pub fn take(&self, revision: &RevisionName, replica: &str) {
        self.edit(|state| state.take(revision, replica));
    }

    /// Sets the cause why a revision does not become ready.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`] when there is no such revision.
    pub fn fail(&self, revision: &RevisionName, failure: Failure) -> Result<(), ClusterError> {
        self.edit(|state| state.fail(revision, failure))
    }

    /// Sets the protocol of the connections to a revision's replicas, which is otherwise plain.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`] when there is no such revision.
    pub fn connect_by(&self, revision: &RevisionName, transport: Transport) -> Result<(), ClusterError> {
        self.edit(|state| state.connect_by(revision, transport))
    }

    fn edit<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let result = change(&mut state);
        if let Some(snapshot) = state.changed() {
            self.snapshots.send_replace(Arc::new(snapshot));
        }
        result
    }

    /// Spawns a task that copies the set of gateways into the snapshots. The task ends when the last clone of the
    /// cluster is dropped.
    fn follow_gateways(&self, stop: CancellationToken) {
        let mut members = self.gateways.members();
        let (state, snapshots) = (Arc::downgrade(&self.state), self.snapshots.clone());
        let follow = async move {
            while members.changed().await.is_ok() {
                let Some(state) = state.upgrade() else { return };
                let mut state = state.lock();
                state.gateways = members.borrow_and_update().clone();
                if let Some(snapshot) = state.changed() {
                    snapshots.send_replace(Arc::new(snapshot));
                }
            }
        };
        tokio::spawn(async move { stop.run_until_cancelled(follow).await });
    }
}

impl Directory for Fake {
    fn watch(&self) -> watch::Receiver<Arc<Snapshot>> {
        self.snapshots.subscribe()
    }
}

impl Reports for Fake {
    fn watch(&self) -> watch::Receiver<Arc<LatestReports>> {
        Reports::watch(&self.gateways)
    }
}

#[async_trait]
impl Apply for Fake {
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError> {
        self.edit(|state| state.ledger.apply(desired))
    }

    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError> {
        Ok(self.edit(|state| state.ledger.forget(service)))
    }
}

#[async_trait]
impl Scale for Fake {
    async fn scale(&self, revision: &RevisionName, replicas: u32) -> Result<(), ClusterError> {
        self.edit(|state| state.ledger.scale(revision, replicas)).map(|_| ())
    }
}

#[async_trait]
impl Lease for Fake {
    async fn acquire(&self, name: &str) -> Result<HeldLease, ClusterError> {
        self.leases.acquire(name).await
    }
}

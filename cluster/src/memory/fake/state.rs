//! State of the cluster in memory.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::Readiness;
use crate::{
    ClusterError, Endpoints, Failure, Gateway, Ledger, Phase, Replica, Revision, RevisionName, Revisions, Snapshot,
    Transport,
};

/// State of the cluster in memory.
#[derive(Debug)]
pub(super) struct State {
    pub(super) ledger: Ledger,
    pub(super) gateways: Arc<[Gateway]>,
    revisions: Revisions,
    starts: Readiness,
    started: u32,
    last: Snapshot,
}

impl State {
    pub(super) fn new(starts: Readiness) -> Self {
        Self {
            ledger: Ledger::new(),
            gateways: Arc::new([]),
            revisions: Revisions::new(),
            starts,
            started: 0,
            last: Snapshot::default(),
        }
    }

    pub(super) fn put(&mut self, revision: &RevisionName, replica: Replica) -> Result<(), ClusterError> {
        let revision = self.revision(revision)?;
        if replica.phase == Phase::Ready {
            revision.failure = None;
        }
        revision.replicas.retain(|old| old.name != replica.name);
        revision.replicas.push(replica);
        revision.replicas.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    pub(super) fn take(&mut self, revision: &RevisionName, replica: &str) {
        if let Some(revision) = self.revisions.get_mut(revision) {
            let replicas = &mut Arc::make_mut(revision).replicas;
            replicas.retain(|old| *old.name != *replica);
        }
    }

    pub(super) fn fail(&mut self, revision: &RevisionName, failure: Failure) -> Result<(), ClusterError> {
        self.revision(revision)?.failure = Some(failure);
        Ok(())
    }

    pub(super) fn connect_by(&mut self, revision: &RevisionName, transport: Transport) -> Result<(), ClusterError> {
        self.revision(revision)?.transport = transport;
        Ok(())
    }

    /// Returns the next snapshot; `None` if nothing has changed.
    pub(super) fn changed(&mut self) -> Option<Snapshot> {
        self.ledger.refresh(&mut self.revisions);
        if self.starts == Readiness::Immediate {
            self.follow_counts();
            self.ledger.refresh(&mut self.revisions);
        }
        let mut next = Snapshot {
            generation: self.last.generation,
            routes: self.ledger.routes().clone(),
            revisions: Arc::new(self.revisions.clone()),
            gateways: self.gateways.clone(),
            drifted: Arc::default(),
        };
        if next == self.last {
            return None;
        }
        next.generation += 1;
        self.last = next.clone();
        Some(next)
    }

    fn revision(&mut self, name: &RevisionName) -> Result<&mut Revision, ClusterError> {
        let revision = self.revisions.get_mut(name).map(Arc::make_mut);
        revision.ok_or_else(|| ClusterError::UnknownRevision { name: name.to_string() })
    }

    fn follow_counts(&mut self) {
        let count = |revision: &&mut Arc<Revision>| revision.replicas.len();
        let is_off = |revision: &&mut Arc<Revision>| count(revision) != revision.desired as usize;
        for revision in self.revisions.values_mut().filter(is_off) {
            let revision = Arc::make_mut(revision);
            let desired = revision.desired as usize;
            revision.replicas.truncate(desired);
            while revision.replicas.len() < desired {
                self.started += 1;
                revision.replicas.push(ready(&revision.name, self.started));
            }
        }
    }
}

/// Creates a ready replica with an unused address in the loopback network.
fn ready(revision: &RevisionName, number: u32) -> Replica {
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(127, 128, 0, 0).to_bits() + number);
    let address = SocketAddr::from((address, 8000));
    Replica {
        endpoints: Endpoints { http: Some(address.into()), grpc: Some(address.into()), metrics: None },
        ..Replica::new(format!("{}-{number:05}", revision.as_str()), Phase::Ready)
    }
}

//! The desired state of a cluster, as a value. Every implementation without an API server keeps one.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::{Applied, ClusterError, Desired, Revision, RevisionName, Revisions, Route, Routes, ServiceName, Workload};

/// The desired services and the desired number of replicas of each revision.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    services: BTreeMap<ServiceName, Desired>,
    replicas: BTreeMap<RevisionName, u32>,
    routes: Arc<Routes>,
}

/// Effect of a request on the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edit {
    /// The request changed the ledger.
    Changed,
    /// The ledger already had the requested state.
    Same,
}

impl Ledger {
    /// Creates a ledger without services.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the desired state of a service.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when an existing revision would change.
    pub fn apply(&mut self, desired: Desired) -> Result<Applied, ClusterError> {
        for workload in desired.workloads() {
            self.check_unchanged(workload)?;
        }
        let before = self.services.get(desired.service());
        let is_rerouted = before.and_then(Desired::route) != desired.route();
        self.count_replicas(&desired);
        self.services.insert(desired.service().clone(), desired);
        if is_rerouted {
            self.rebuild_routes();
        }
        Ok(self.applied())
    }

    /// Removes a service with its revisions.
    pub fn forget(&mut self, service: &ServiceName) -> Applied {
        if let Some(removed) = self.services.remove(service) {
            for workload in removed.workloads() {
                self.replicas.remove(&workload.revision);
            }
            if removed.route().is_some() {
                self.rebuild_routes();
            }
        }
        self.applied()
    }

    /// Records the desired number of a revision's replicas.
    ///
    /// # Errors
    /// [`ClusterError::UnknownRevision`] when there is no such revision.
    pub fn scale(&mut self, revision: &RevisionName, replicas: u32) -> Result<Edit, ClusterError> {
        let Some(desired) = self.replicas.get_mut(revision) else {
            return Err(ClusterError::UnknownRevision { name: revision.to_string() });
        };
        if *desired == replicas {
            return Ok(Edit::Same);
        }
        *desired = replicas;
        Ok(Edit::Changed)
    }

    /// Iterates over the revisions and their desired numbers of replicas.
    pub fn workloads(&self) -> impl Iterator<Item = (&Workload, u32)> {
        let all = self.services.values().flat_map(Desired::workloads);
        all.map(|workload| (workload, self.replicas(&workload.revision)))
    }

    /// Returns the revision of this name.
    #[must_use]
    pub fn workload(&self, revision: &RevisionName) -> Option<&Workload> {
        let service = self.services.get(revision.service())?;
        let mut workloads = service.workloads().iter();
        workloads.find(|workload| workload.revision == *revision)
    }

    /// Returns the desired number of a revision's replicas; 0 for an unknown revision.
    #[must_use]
    pub fn replicas(&self, revision: &RevisionName) -> u32 {
        self.replicas.get(revision).copied().unwrap_or(0)
    }

    /// The routes of all services.
    #[must_use]
    pub fn routes(&self) -> &Arc<Routes> {
        &self.routes
    }

    /// Updates the running revisions to the desired state: new revisions appear without replicas, desired numbers are
    /// set, and a removed revision disappears once its last replica is gone. Unchanged revisions keep their pointers.
    pub fn refresh(&self, revisions: &mut Revisions) {
        let running = revisions.keys().map(RevisionName::service);
        let services: BTreeSet<_> = running.chain(self.services.keys()).cloned().collect();
        for service in &services {
            self.refresh_service(service, revisions);
        }
    }

    /// The same as [`Self::refresh`], for the revisions of one service.
    pub fn refresh_service(&self, service: &ServiceName, revisions: &mut Revisions) {
        let of_service = revisions.range_mut(RevisionName::all_of(service));
        let mut removed = Vec::new();
        for (name, revision) in of_service {
            match self.workload(name) {
                Some(workload) => update(revision, workload, self.replicas(name)),
                None if revision.replicas.is_empty() => removed.push(name.clone()),
                None => end(revision),
            }
        }
        for name in removed {
            revisions.remove(&name);
        }
        let desired = self.services.get(service);
        for workload in desired.into_iter().flat_map(Desired::workloads) {
            let revision = revisions.entry(workload.revision.clone());
            revision.or_insert_with(|| Arc::new(Revision::new(workload, self.replicas(&workload.revision))));
        }
    }

    fn check_unchanged(&self, new: &Workload) -> Result<(), ClusterError> {
        match self.workload(&new.revision) {
            Some(old) if old.identity() != new.identity() => {
                Err(ClusterError::refused(&new.revision, "an existing revision cannot be changed; make a new one"))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Updates the desired numbers of replicas: existing revisions keep theirs, new ones get their initial number, and
    /// removed ones are dropped.
    fn count_replicas(&mut self, desired: &Desired) {
        let workloads = desired.workloads();
        let before = self.services.get(desired.service());
        for old in before.into_iter().flat_map(Desired::workloads) {
            if !workloads.iter().any(|w| w.revision == old.revision) {
                self.replicas.remove(&old.revision);
            }
        }
        for workload in workloads {
            let replicas = self.replicas.entry(workload.revision.clone());
            replicas.or_insert(workload.replicas);
        }
    }

    fn rebuild_routes(&mut self) {
        let routes = self.services.values().filter_map(Desired::route);
        let routes: Vec<Arc<Route>> = routes.cloned().collect();
        self.routes = Arc::new(Routes::new(self.routes.generation + 1, routes));
    }

    fn applied(&self) -> Applied {
        Applied { routes: self.routes.generation }
    }
}

/// Updates a running revision to its desired state. A revision of another identity belongs to a removed service of the
/// same name: the new one takes its place at once, and keeps its replicas until they have ended.
fn update(revision: &mut Arc<Revision>, workload: &Workload, desired: u32) {
    if revision.identity != workload.identity() {
        let replicas = revision.replicas.clone();
        *revision = Arc::new(Revision { replicas, ..Revision::new(workload, desired) });
        return;
    }
    let is_in_line = revision.desired == desired
        && revision.concurrency == workload.concurrency
        && revision.scaling == workload.scaling;
    if !is_in_line {
        let revision = Arc::make_mut(revision);
        revision.desired = desired;
        revision.concurrency = workload.concurrency;
        revision.scaling.clone_from(&workload.scaling);
    }
}

/// Sets a removed revision to zero replicas, and removes its scaling policy so that the autoscaler ignores it.
fn end(revision: &mut Arc<Revision>) {
    if revision.desired != 0 || revision.scaling.is_some() {
        let revision = Arc::make_mut(revision);
        revision.desired = 0;
        revision.scaling = None;
    }
}

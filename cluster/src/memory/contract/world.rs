//! An implementation under test, and ways to wait for it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::{
    Applied, Apply, ClusterError, Desired, Destination, Directory, Gateway, Lease, Report, Reports, Revision,
    RevisionName, Route, Scale, ServiceName, Snapshot, Split, Workload,
};

/// An implementation under test.
#[async_trait]
pub trait World: Send + Sync {
    /// The directory of the implementation.
    fn directory(&self) -> &dyn Directory;
    /// The controller's side of the implementation.
    fn apply(&self) -> &dyn Apply;
    /// The autoscaler's side of the implementation.
    fn scale(&self) -> &dyn Scale;
    /// The reports of the implementation.
    fn reports(&self) -> &dyn Reports;
    /// The leases of the implementation.
    fn leases(&self) -> &dyn Lease;
    /// A pod whose replicas become ready here, several at once too.
    fn template(&self) -> PodTemplateSpec;
    /// Starts a gateway that serves this report until the answer is dropped.
    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send>;
    /// Longest time that anything may take here.
    fn deadline(&self) -> Duration;
    /// The namespace of the suite's services: worlds that share a cluster have one each.
    fn namespace(&self) -> &'static str {
        "contract"
    }
}

/// A service of the suite. Each rule has its own, so that all can share one world.
pub(super) fn service(world: &dyn World, name: &str) -> ServiceName {
    match ServiceName::new(world.namespace(), name) {
        Ok(service) => service,
        Err(error) => panic!("{error}"),
    }
}

/// Its revision of this number.
pub(super) fn revision(service: &ServiceName, number: u32) -> RevisionName {
    match service.revision(number) {
        Ok(revision) => revision,
        Err(error) => panic!("{error}"),
    }
}

/// A revision of the world's own pods.
pub(super) fn workload(world: &dyn World, service: &ServiceName, number: u32, replicas: u32) -> Workload {
    Workload {
        ready_call: None,
        revision: revision(service, number),
        template: world.template().into(),
        storage: Vec::new(),
        replicas,
        concurrency: None,
        scaling: None,
    }
}

/// Applies these revisions, the last of them routed to.
pub(super) async fn apply(world: &dyn World, workloads: Vec<Workload>) -> Applied {
    let Some(last) = workloads.last().map(|last| last.revision.clone()) else {
        panic!("a service without revisions");
    };
    let service = last.service().clone();
    let route = Route::new(service.clone(), Destination::Split(Split::all(last)));
    let desired = Desired::new(service, workloads, Some(route));
    let applied = match desired {
        Ok(desired) => world.apply().apply(desired).await,
        Err(error) => Err(error),
    };
    done(applied)
}

/// The value of a result; an error ends the test.
pub(super) fn done<T>(result: Result<T, ClusterError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Waits for a snapshot like this.
pub(super) async fn see(world: &dyn World, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = world.directory().watch();
    let wait = snapshots.wait_for(|snapshot| is_so(snapshot));
    let seen = match tokio::time::timeout(world.deadline(), wait).await {
        Ok(Ok(snapshot)) => Some(snapshot.clone()),
        Ok(Err(_)) => panic!("the directory ended while waiting for {what}"),
        Err(_) => None,
    };
    match seen {
        Some(snapshot) => snapshot,
        None => panic!("waited too long for {what}: {:#?}", snapshots.borrow()),
    }
}

/// Waits until a revision has exactly so many replicas, all ready.
pub(super) async fn ready(world: &dyn World, name: &RevisionName, count: usize) -> Arc<Revision> {
    let is_so = |snapshot: &Snapshot| {
        let revision = snapshot.revision(name);
        revision.is_some_and(|r| r.ready().count() == count && r.replicas.len() == count)
    };
    let what = format!("{name} with {count} ready replicas");
    let snapshot = see(world, &what, is_so).await;
    match snapshot.revision(name) {
        Some(revision) => revision.clone(),
        None => panic!("{name} left"),
    }
}

/// Ends a rule's service and waits until nothing of it is left.
pub(super) async fn clean(world: &dyn World, service: &ServiceName) {
    done(world.apply().forget(service).await);
    let what = format!("nothing left of {service}");
    see(world, &what, |snapshot| is_removed(snapshot, service)).await;
}

/// Whether nothing of a service is left.
pub(super) fn is_removed(snapshot: &Snapshot, service: &ServiceName) -> bool {
    let runs = snapshot.revisions.keys().any(|r| r.service() == service);
    !runs && snapshot.routes.of(service).is_none()
}

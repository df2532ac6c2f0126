//! The implementation under test, and functions that wait for its state.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::{
    Applied, Apply, ClusterError, Desired, Destination, Directory, Gateway, Lease, Report, Reports, Revision,
    RevisionName, Route, Scale, ServiceName, Snapshot, Split, Workload,
};

/// The values that implement the traits under test.
#[derive(Clone, Copy)]
pub struct Implementation<'a> {
    /// The gateway's side: snapshots of the cluster.
    pub directory: &'a dyn Directory,
    /// The controller's side: workloads and routes.
    pub apply: &'a dyn Apply,
    /// The autoscaler's side: numbers of replicas.
    pub scale: &'a dyn Scale,
    /// Reports of all gateways.
    pub reports: &'a dyn Reports,
    /// Leases of controllers and autoscalers.
    pub leases: &'a dyn Lease,
}

/// A cluster in which an implementation runs.
#[async_trait]
pub trait World: Send + Sync {
    /// Returns the implementation under test.
    fn tested(&self) -> Implementation<'_>;
    /// Pod template whose replicas become ready on this implementation, several at once too.
    fn template(&self) -> PodTemplateSpec;
    /// Starts a gateway that publishes this report until the returned value is dropped.
    async fn join(&self, gateway: Gateway, report: Report) -> Box<dyn Send>;
    /// Maximum time to wait for any state.
    fn deadline(&self) -> Duration;
    /// Namespace of the suite's services. Each world that shares a cluster with others has its own.
    fn namespace(&self) -> &'static str {
        "contract"
    }
}

/// Returns the name of a service. Each rule uses its own service, so that all rules can share one world.
pub(super) fn service(world: &dyn World, name: &str) -> ServiceName {
    match ServiceName::new(world.namespace(), name) {
        Ok(service) => service,
        Err(error) => panic!("{error}"),
    }
}

/// Returns the name of the service's revision `number`.
pub(super) fn revision(service: &ServiceName, number: u32) -> RevisionName {
    match service.revision(number) {
        Ok(revision) => revision,
        Err(error) => panic!("{error}"),
    }
}

/// Returns a workload whose pods come from the world's template.
pub(super) fn workload(world: &dyn World, service: &ServiceName, number: u32, replicas: u32) -> Workload {
    Workload::new(revision(service, number), world.template(), replicas)
}

/// Applies these revisions, with a route to the last one.
pub(super) async fn apply(world: &dyn World, workloads: Vec<Workload>) -> Applied {
    let Some(last) = workloads.last().map(|last| last.revision.clone()) else {
        panic!("a service without revisions");
    };
    let service = last.service().clone();
    let route = Route::new(service.clone(), Destination::Split(Split::all(last)));
    let desired = Desired::new(service, workloads, Some(route));
    let applied = match desired {
        Ok(desired) => world.tested().apply.apply(desired).await,
        Err(error) => Err(error),
    };
    done(applied)
}

/// Returns the value of a result; an error fails the test.
pub(super) fn done<T>(result: Result<T, ClusterError>) -> T {
    match result {
        Ok(value) => value,
        Err(error) => panic!("{error}"),
    }
}

/// Waits until a snapshot satisfies `is_so`, and returns it. `what` describes it in the failure message.
pub(super) async fn see(world: &dyn World, what: &str, is_so: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
    let mut snapshots = world.tested().directory.watch();
    let wait = snapshots.wait_for(|snapshot| is_so(snapshot));
    let result = match tokio::time::timeout(world.deadline(), wait).await {
        Ok(Ok(snapshot)) => Some(snapshot.clone()),
        Ok(Err(_)) => panic!("the directory ended while waiting for {what}"),
        Err(_) => None,
    };
    match result {
        Some(snapshot) => snapshot,
        None => panic!("waited too long for {what}: {:#?}", snapshots.borrow()),
    }
}

/// Waits until a revision has exactly `count` replicas, all ready.
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

/// Removes a rule's service and waits until nothing of it is left.
pub(super) async fn clean(world: &dyn World, service: &ServiceName) {
    done(world.tested().apply.forget(service).await);
    let what = format!("nothing left of {service}");
    see(world, &what, |snapshot| is_removed(snapshot, service)).await;
}

/// Returns true if neither a revision nor a route of the service is left.
pub(super) fn is_removed(snapshot: &Snapshot, service: &ServiceName) -> bool {
    let runs = snapshot.revisions.keys().any(|r| r.service() == service);
    !runs && snapshot.routes.of(service).is_none()
}

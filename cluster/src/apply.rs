//! The controller's side of a cluster.

use std::sync::Arc;

use async_trait::async_trait;

use crate::{ClusterError, FailureReport, RevisionName, Route, ServiceName, Tagged, Workload};

/// Makes services run as desired; used by the controller.
#[async_trait]
pub trait Apply: Send + Sync {
    /// Brings a service to its desired state: new revisions start with their `replicas`, revisions that are no longer
    /// listed end, and the route is replaced. The replica count of an existing revision is left alone. Returns once the
    /// desired state is recorded, not once replicas are ready.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when the service can never run here, or would change an existing revision; nothing is
    /// changed then. [`ClusterError::Denied`] when the service may run here later; a part of the change may have been
    /// made. [`ClusterError::Unavailable`] when the cluster does not respond.
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError>;

    /// Ends a service with all its revisions. An unknown service is not an error.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] when the cluster does not allow the change now, [`ClusterError::Unavailable`] when it
    /// does not respond.
    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError>;

    /// Publishes failures of a service's revisions for gateways, which do not see replicas themselves. Failures that
    /// are already published are not written again.
    ///
    /// # Errors
    /// [`ClusterError::Denied`], [`ClusterError::Unavailable`].
    async fn report_failures(&self, _reports: &[FailureReport]) -> Result<(), ClusterError> {
        Ok(())
    }

    /// Stops managing a service. The service's objects stay, and its replicas keep serving.
    ///
    /// # Errors
    /// [`ClusterError::Denied`] when the cluster does not allow the change now, [`ClusterError::Unavailable`] when it
    /// does not respond.
    async fn release(&self, _service: &ServiceName) -> Result<(), ClusterError> {
        Ok(())
    }
}

/// The desired state of a service. Clones share it.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    service: ServiceName,
    workloads: Arc<[Workload]>,
    route: Option<Arc<Route>>,
}

/// Result of applying a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Generation of the route table that contains the change: once every gateway reports this generation or a later
    /// one, the route is live.
    pub routes: u64,
}

impl Desired {
    /// Checks and combines a service's revisions and its route. Without a route, the service runs but receives no
    /// requests.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when a workload or the route belongs to another service, a revision or a tag is listed
    /// twice, the mirrored share is not 1 to 100 %, or the route leads to a revision that is not among the workloads.
    pub fn new(service: ServiceName, workloads: Vec<Workload>, route: Option<Route>) -> Result<Self, ClusterError> {
        for (i, workload) in workloads.iter().enumerate() {
            check_workload(&service, &workload.revision, &workloads[..i])?;
        }
        if let Some(route) = &route {
            check_route(&service, route, &workloads)?;
        }
        Ok(Self { service, workloads: workloads.into(), route: route.map(Arc::new) })
    }

    /// Name of the service.
    #[must_use]
    pub fn service(&self) -> &ServiceName {
        &self.service
    }

    /// Revisions of the service.
    #[must_use]
    pub fn workloads(&self) -> &[Workload] {
        &self.workloads
    }

    /// Route of the service; `None` if it receives no requests.
    #[must_use]
    pub fn route(&self) -> Option<&Arc<Route>> {
        self.route.as_ref()
    }
}

fn check_workload(service: &ServiceName, revision: &RevisionName, before: &[Workload]) -> Result<(), ClusterError> {
    if revision.service() != service {
        return Err(ClusterError::refused(revision, format!("not a revision of {service}")));
    }
    if before.iter().any(|w| w.revision == *revision) {
        return Err(ClusterError::refused(revision, "listed twice"));
    }
    Ok(())
}

fn check_route(service: &ServiceName, route: &Route, workloads: &[Workload]) -> Result<(), ClusterError> {
    if route.service != *service {
        return Err(ClusterError::refused(service, format!("the route belongs to {}", route.service)));
    }
    let twice = |(i, tagged): (usize, &Tagged)| route.tags[..i].iter().any(|t| t.tag == tagged.tag);
    if route.tags.iter().enumerate().any(twice) {
        return Err(ClusterError::refused(service, "a tag is used twice"));
    }
    let percent = route.mirror.as_ref().map_or(100, |mirror| mirror.percent);
    if !(1..=100).contains(&percent) {
        let because = format!("cannot mirror {percent} % of requests: 1 to 100 are possible");
        return Err(ClusterError::refused(service, because));
    }
    let runs = |name: &&RevisionName| workloads.iter().any(|w| w.revision == **name);
    match route.revisions().find(|name| !runs(name)) {
        Some(name) => {
            Err(ClusterError::refused(service, format!("the route leads to {name}, which is not one of its revisions")))
        }
        None => Ok(()),
    }
}

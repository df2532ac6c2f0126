//! `Apply` over ControllerRevisions, Deployments and Services, by server-side apply.
//!
//! The watches show most of the objects that exist. Only names that no watch shows are read from the API server, and an
//! object that already is as wanted is not written. Requests about several objects are sent at once.

mod existing;
mod writes;

use std::collections::BTreeSet;

use async_trait::async_trait;
use futures_util::future::try_join_all;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;
use kube::api::Api;
use weir_cluster::{Applied, Apply, ClusterError, Desired, FailureReport, ServiceName, Workload};

use crate::Kubernetes;
use crate::api::{find, of_service, put, remove};
use crate::objects::{
    CONTROLLER, KeptRevision, RevisionObjects, alias, alias_names, aliases, check_owner, service_of,
    without_image_volumes,
};
use crate::operations::name_claim::{NameClaim, claim_name};
use crate::operations::owner::Owner;
use crate::stored::StoredRevision;
use crate::view::drift::{Existing, Kind, ObjectState, WrittenObjects};
use crate::view::generation;

/// Result for a service that has no route and never had one: generation 0, which every gateway has already passed.
const ANY: Applied = Applied { routes: 0 };

/// APIs through which the objects of a service are written.
struct Apis {
    deployments: Api<Deployment>,
    services: Api<Service>,
    revisions: Api<ControllerRevision>,
}

/// Objects and owner of a service on the API server before the service is applied, with the APIs to write them.
struct ServiceState {
    apis: Apis,
    existing: Existing,
    owner: Owner,
}

#[async_trait]
impl Apply for Kubernetes {
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError> {
        let service = desired.service();
        self.notes.drift.lock().begin(service);
        let apis = self.apis(service);
        let (existing, owner) = tokio::try_join!(self.existing(&apis, &desired), self.owner(service))?;
        let state = ServiceState { apis, existing, owner };
        // Every reason to refuse is checked before anything is written.
        let kept = self.prepared(&state, &desired).await?;
        let aliases = self.aliases(&state, &desired)?;
        let mut written = WrittenObjects::default();
        let workloads = desired.workloads().iter().zip(kept);
        let runs = workloads.map(|(workload, kept)| self.run(&state, workload, kept));
        for made in try_join_all(runs).await? {
            made.add_to(&mut written);
        }
        let applied = self.route(&state, service, &aliases, &mut written).await?;
        self.retire(&state, &desired).await?;
        self.wrote(service, Some(written)).await;
        Ok(applied)
    }

    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError> {
        self.wrote(service, None).await;
        self.kept.forget(service);
        let apis = self.apis(service);
        let applied = self.unroute(&apis.services, service).await?;
        for name in of_service(&apis.services, service).await?.keys() {
            remove(&apis.services, name).await?;
        }
        for name in of_service(&apis.deployments, service).await?.keys() {
            remove(&apis.deployments, name).await?;
        }
        // ControllerRevisions go last: after an interruption they show which objects existed.
        for name in of_service(&apis.revisions, service).await?.keys() {
            remove(&apis.revisions, name).await?;
        }
        Ok(applied)
    }

    async fn report_failures(&self, reports: &[FailureReport]) -> Result<(), ClusterError> {
        try_join_all(reports.iter().map(|report| self.report(report))).await.map(drop)
    }

    async fn release(&self, service: &ServiceName) -> Result<(), ClusterError> {
        self.wrote(service, None).await;
        self.kept.forget(service);
        let revisions = self.controller_revisions(service);
        // Kubernetes' garbage collector removes the owner reference from orphans. The API server refuses that patch of
        // a ControllerRevision if its own encoding of the immutable `data` differs in a byte, so Weir removes the
        // reference.
        for revision in of_service(&revisions, service).await?.values() {
            self.hand_over(revision, service, None).await?;
        }
        Ok(())
    }
}

impl Kubernetes {
    pub(crate) fn deployments(&self, namespace: &str) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn apis(&self, service: &ServiceName) -> Apis {
        Apis {
            deployments: self.deployments(service.namespace()),
            services: Api::namespaced(self.client.clone(), service.namespace()),
            revisions: self.controller_revisions(service),
        }
    }

    /// Returns the stored form of each workload's revision, and its ControllerRevision if there is one. Writes nothing.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when an object of another owner has its name, or the stored revision differs.
    async fn prepared(
        &self,
        state: &ServiceState,
        desired: &Desired,
    ) -> Result<Vec<(KeptRevision, Option<ControllerRevision>)>, ClusterError> {
        let known = self.kept.take(desired.service());
        let each = desired.workloads().iter().map(async |workload: &Workload| {
            let revision = &workload.revision;
            let stored = match known.get(revision) {
                Some(known) => Some(known.clone()),
                None => find(&state.apis.revisions, revision.as_str()).await?,
            };
            let wanted = StoredRevision::of(workload);
            let kept = self.kept_or_completed(wanted, stored.as_ref(), &state.owner);
            let kept = kept.await?.ok_or_else(|| {
                let because = "a stored revision is immutable, and this one differs from it";
                ClusterError::refused(revision, because)
            })?;
            Ok((kept, stored))
        });
        try_join_all(each).await
    }

    /// Writes the Service and the Deployment of a revision.
    async fn run(
        &self,
        state: &ServiceState,
        workload: &Workload,
        (kept, stored): (KeptRevision, Option<ControllerRevision>),
    ) -> Result<writes::RevisionMarks, ClusterError> {
        let owner = state.owner.reference();
        let pod = self.keep(kept, stored.as_ref(), owner.as_ref()).await?;
        let objects = RevisionObjects::of(workload, pod, owner.as_ref())?;
        let explained = |error| explained(error, workload);
        let of = (workload.revision.service(), &state.existing);
        let (service, deployment) = tokio::try_join!(
            self.put_unless_same(&state.apis.services, of, &objects.service),
            self.put_deployment(state, workload, &objects.deployment),
        )
        .map_err(explained)?;
        Ok(writes::RevisionMarks { name: workload.revision.as_str().into(), service, deployment })
    }

    /// Returns the Services that the route of a service needs.
    fn aliases(&self, state: &ServiceState, desired: &Desired) -> Result<Vec<Service>, ClusterError> {
        let Some(route) = desired.route() else {
            return Ok(Vec::new());
        };
        let owner = state.owner.reference();
        let aliases = aliases(desired.service(), route, &self.options, owner.as_ref())?;
        Ok(aliases)
    }

    async fn route(
        &self,
        state: &ServiceState,
        service: &ServiceName,
        aliases: &[Service],
        written: &mut WrittenObjects,
    ) -> Result<Applied, ClusterError> {
        if aliases.is_empty() {
            return self.unroute(&state.apis.services, service).await;
        }
        let puts = aliases.iter().map(|alias| self.put_alias(state, service, alias));
        let objects = try_join_all(puts).await?;
        let mut applied = ANY;
        for (alias, object) in aliases.iter().zip(objects) {
            written.add(Kind::Service, &alias.name_any(), &object);
            // The last alias is the one that stores the route.
            applied.routes = object.version;
        }
        Ok(applied)
    }

    /// Writes an alias, unless its name is left to another service.
    async fn put_alias(
        &self,
        state: &ServiceState,
        service: &ServiceName,
        alias: &Service,
    ) -> Result<ObjectState, ClusterError> {
        let (existing, name) = (&state.existing, alias.name_any());
        match claim_name(service, &name, existing)? {
            NameClaim::Left(others) => Ok(others),
            NameClaim::Own => {
                let services = &state.apis.services;
                self.put_unless_same(services, (service, existing), alias).await
            }
        }
    }

    /// Removes a service's route. The route is emptied first, because that write yields a generation; then the aliases
    /// are deleted.
    async fn unroute(&self, services: &Api<Service>, service: &ServiceName) -> Result<Applied, ClusterError> {
        let name = service.full_name();
        let is_own = async |name: &str| -> Result<bool, ClusterError> {
            let found = find(services, name).await?;
            Ok(found.is_some_and(|found| {
                let owner = service_of(&found);
                check_owner(&found, service).is_ok() && owner.is_none_or(|owner| owner == *service)
            }))
        };
        if !is_own(&name).await? {
            return Ok(ANY);
        }
        let empty = alias(name.clone(), service, &self.options);
        let stored = put(services, &empty, &name, CONTROLLER).await?;
        remove(services, &name).await?;
        for other in alias_names(service).into_iter().filter(|other| *other != name) {
            if is_own(&other).await? {
                remove(services, &other).await?;
            }
        }
        Ok(Applied { routes: generation(&stored) })
    }

    /// Removes the objects of revisions that are not desired.
    async fn retire(&self, state: &ServiceState, desired: &Desired) -> Result<(), ClusterError> {
        let desired: BTreeSet<_> = desired.workloads().iter().map(|workload| workload.revision.as_str()).collect();
        let retired = |kind| {
            let of_kind = state.existing.of_revisions(kind);
            of_kind.filter(|name| !desired.contains(name))
        };
        let services = retired(Kind::Service).map(|name| remove(&state.apis.services, name));
        let deployments = retired(Kind::Deployment).map(|name| remove(&state.apis.deployments, name));
        tokio::try_join!(try_join_all(services), try_join_all(deployments))?;
        Ok(())
    }
}

/// Returns a refusal with what to do, where the API server's message does not say what it lacks.
fn explained(error: ClusterError, workload: &Workload) -> ClusterError {
    match without_image_volumes(&workload.storage, &error.to_string()) {
        Some(because) => ClusterError::refused(&workload.revision, because),
        None => error,
    }
}

//! `Apply` over ControllerRevisions, Deployments and Services, by server-side apply.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use k8s_openapi::api::apps::v1::{ControllerRevision, Deployment};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::Api;
use kube::{Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use weir_cluster::{Applied, Apply, ClusterError, Desired, ServiceName, Workload};

use crate::Kubernetes;
use crate::api::{find, of_service, put, put_value, remove};
use crate::drift::WrittenObjects;
use crate::generation::generation;
use crate::objects::{
    AUTOSCALER, CONTROLLER, KeptRevision, RevisionObjects, alias, aliases, check_owner, revision_of,
};
use crate::stored::StoredRevision;

/// The generation of a service that has no route and never had one: every gateway is past it.
const ANY: Applied = Applied { routes: 0 };

/// Where the objects of a service are written.
struct Apis {
    deployments: Api<Deployment>,
    services: Api<Service>,
    revisions: Api<ControllerRevision>,
}

/// The objects of a service that are there, by name.
struct Existing {
    deployments: BTreeMap<String, Deployment>,
    services: BTreeMap<String, Service>,
    revisions: BTreeMap<String, ControllerRevision>,
    owner: Option<OwnerReference>,
}

#[async_trait]
impl Apply for Kubernetes {
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError> {
        let service = desired.service();
        let apis = self.apis(service);
        let existing = self.existing(&apis, service).await?;
        // Whatever is to be refused is refused before anything is written.
        let mut kept = Vec::new();
        for workload in desired.workloads() {
            kept.push(self.prepared(&apis, &existing, workload).await?);
        }
        let aliases = self.aliases(&apis, &existing, &desired).await?;
        let mut written = WrittenObjects::default();
        for (workload, kept) in desired.workloads().iter().zip(kept) {
            let made = self.run(&apis, &existing, workload, kept).await?;
            written.add(&made.0);
            written.add(&made.1);
        }
        let applied = self
            .route(&apis.services, service, &aliases, &mut written)
            .await?;
        for name in existing.retired(&desired) {
            remove(&apis.services, name).await?;
            remove(&apis.deployments, name).await?;
        }
        self.wrote(service, Some(written)).await;
        Ok(applied)
    }

    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError> {
        self.wrote(service, None).await;
        let apis = self.apis(service);
        let applied = self.unroute(&apis.services, service).await?;
        for name in of_service(&apis.services, service).await?.keys() {
            remove(&apis.services, name).await?;
        }
        for name in of_service(&apis.deployments, service).await?.keys() {
            remove(&apis.deployments, name).await?;
        }
        // Last: whoever is interrupted finds by them what there was.
        for name in of_service(&apis.revisions, service).await?.keys() {
            remove(&apis.revisions, name).await?;
        }
        Ok(applied)
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

    async fn existing(&self, apis: &Apis, service: &ServiceName) -> Result<Existing, ClusterError> {
        let (deployments, services, revisions, owner) = tokio::try_join!(
            of_service(&apis.deployments, service),
            of_service(&apis.services, service),
            of_service(&apis.revisions, service),
            self.owner(service),
        )?;
        Ok(Existing {
            deployments,
            services,
            revisions,
            owner,
        })
    }

    /// What is to be kept of a workload's revision. Nothing is written.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when an object of another owner has its name, or it was another revision.
    async fn prepared(
        &self,
        apis: &Apis,
        existing: &Existing,
        workload: &Workload,
    ) -> Result<KeptRevision, ClusterError> {
        let revision = &workload.revision;
        check_free(
            &apis.services,
            &existing.services,
            revision.as_str(),
            revision,
        )
        .await?;
        check_free(
            &apis.deployments,
            &existing.deployments,
            revision.as_str(),
            revision,
        )
        .await?;
        check_free(
            &apis.revisions,
            &existing.revisions,
            revision.as_str(),
            revision,
        )
        .await?;
        let wanted = StoredRevision::of(workload);
        let stored = existing.revisions.get(revision.as_str());
        let kept = self.kept_or_completed(wanted, stored).await?;
        kept.ok_or_else(|| {
            let because = "a revision that exists cannot become another one";
            ClusterError::refused(revision, because)
        })
    }

    /// Writes the objects of a revision, and returns them.
    async fn run(
        &self,
        apis: &Apis,
        existing: &Existing,
        workload: &Workload,
        kept: KeptRevision,
    ) -> Result<(Service, Deployment), ClusterError> {
        let name = workload.revision.as_str();
        let owner = existing.owner.as_ref();
        let pod = self.keep(kept, existing.revisions.get(name), owner).await?;
        let objects = RevisionObjects::of(workload, pod, owner)?;
        let service = put(&apis.services, &objects.service, name, CONTROLLER).await?;
        let former = existing.deployments.get(name);
        let deployment =
            put_deployment(&apis.deployments, workload, &objects.deployment, former).await?;
        Ok((service, deployment))
    }

    /// The Services that the route of a service needs.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when one of them is another's.
    async fn aliases(
        &self,
        apis: &Apis,
        existing: &Existing,
        desired: &Desired,
    ) -> Result<Vec<Service>, ClusterError> {
        let Some(route) = desired.route() else {
            return Ok(Vec::new());
        };
        let service = desired.service();
        let aliases = aliases(service, route, &self.options, existing.owner.as_ref())?;
        for alias in &aliases {
            let name = alias.name_any();
            check_free(&apis.services, &existing.services, &name, service).await?;
        }
        Ok(aliases.into())
    }

    async fn route(
        &self,
        services: &Api<Service>,
        service: &ServiceName,
        aliases: &[Service],
        written: &mut WrittenObjects,
    ) -> Result<Applied, ClusterError> {
        if aliases.is_empty() {
            return self.unroute(services, service).await;
        }
        let mut applied = ANY;
        for alias in aliases {
            let stored = put(services, alias, &alias.name_any(), CONTROLLER).await?;
            written.add(&stored);
            // The last is the one that keeps the route.
            applied.routes = generation(&stored);
        }
        Ok(applied)
    }

    /// Takes a service's route away. First it is emptied, for the generation of that is known; then it goes.
    async fn unroute(
        &self,
        services: &Api<Service>,
        service: &ServiceName,
    ) -> Result<Applied, ClusterError> {
        let name = service.name();
        let Some(existing) = find(services, name).await? else {
            return Ok(ANY);
        };
        if check_owner(&existing, service).is_err() {
            return Ok(ANY);
        }
        let empty = alias(name.to_owned(), service, &self.options);
        let stored = put(services, &empty, name, CONTROLLER).await?;
        remove(services, name).await?;
        remove(services, &format!("{name}-predictor")).await?;
        Ok(Applied {
            routes: generation(&stored),
        })
    }
}

impl Existing {
    /// The names of revisions of which something is there, and that are not desired.
    fn retired<'a>(&'a self, desired: &Desired) -> BTreeSet<&'a str> {
        let deployments = self.deployments.values().filter_map(|object| {
            let name = object.metadata.name.as_deref();
            revision_of(object).and(name)
        });
        let services = self.services.values().filter_map(|object| {
            let name = object.metadata.name.as_deref();
            revision_of(object).and(name)
        });
        let is_desired = |name: &&str| {
            desired
                .workloads()
                .iter()
                .any(|w| w.revision.as_str() == *name)
        };
        deployments
            .chain(services)
            .filter(|name| !is_desired(name))
            .collect()
    }
}

/// Refuses a name under which there is an object of another owner.
async fn check_free<K>(
    api: &Api<K>,
    ours: &BTreeMap<String, K>,
    name: &str,
    subject: &impl ToString,
) -> Result<(), ClusterError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    if ours.contains_key(name) {
        return Ok(());
    }
    match find(api, name).await? {
        Some(existing) => check_owner(&existing, subject),
        None => Ok(()),
    }
}

/// Writes a Deployment. Its number of replicas is the autoscaler's from the first moment on: its manager creates it,
/// and lets go of all else once the controller holds that.
async fn put_deployment(
    deployments: &Api<Deployment>,
    workload: &Workload,
    deployment: &Deployment,
    existing: Option<&Deployment>,
) -> Result<Deployment, ClusterError> {
    let name = workload.revision.as_str();
    let replicas = match existing {
        Some(existing) => existing.spec.as_ref().and_then(|spec| spec.replicas),
        None => Some(i32::try_from(workload.replicas).unwrap_or(i32::MAX)),
    };
    if existing.is_none() {
        let mut first = deployment.clone();
        first.spec.get_or_insert_default().replicas = replicas;
        put(deployments, &first, name, AUTOSCALER).await?;
    }
    let stored = put(deployments, deployment, name, CONTROLLER).await?;
    if existing.is_none_or(is_half_made) {
        let only = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": { "replicas": replicas },
        });
        return put_value(deployments, &only, name, AUTOSCALER).await;
    }
    Ok(stored)
}

/// Whether the autoscaler's manager still holds more than the number of replicas: whoever made it was interrupted.
fn is_half_made(deployment: &Deployment) -> bool {
    let mut entries = deployment.managed_fields().iter();
    entries.any(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0["f:spec"]);
        entry.manager.as_deref() == Some(AUTOSCALER)
            && fields.is_some_and(|fields| fields.get("f:template").is_some())
    })
}

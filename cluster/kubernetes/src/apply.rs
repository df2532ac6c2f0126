//! `Apply` over Deployments and Services, by server-side apply.

use std::collections::BTreeMap;

use async_trait::async_trait;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use weir_cluster::{Applied, Apply, ClusterError, Desired, ServiceName, Workload};

use crate::objects::{
    AUTOSCALER, CONTROLLER, RevisionObjects, alias, aliases, check_owner, selector,
};
use crate::observed::generation;
use crate::{Kubernetes, error};

/// The generation of a service that has no route and never had one: every gateway is past it.
const ANY: Applied = Applied { routes: 0 };

#[async_trait]
impl Apply for Kubernetes {
    async fn apply(&self, desired: Desired) -> Result<Applied, ClusterError> {
        let service = desired.service();
        let (deployments, services) = self.apis(service);
        let stored = of_service(&deployments, service).await?;
        // Whatever is to be refused is refused before anything is written.
        let mut revisions = Vec::new();
        for workload in desired.workloads() {
            let existing = check(&deployments, &services, workload, &stored).await?;
            revisions.push((workload, RevisionObjects::of(workload)?, existing));
        }
        let aliases = self.aliases(&services, &desired).await?;
        for (workload, objects, existing) in revisions {
            put(
                &services,
                &objects.service,
                workload.revision.as_str(),
                CONTROLLER,
            )
            .await?;
            put_deployment(&deployments, workload, &objects.deployment, existing).await?;
        }
        let applied = self.route(&services, service, &aliases).await?;
        let is_desired = |name: &str| {
            desired
                .workloads()
                .iter()
                .any(|w| w.revision.as_str() == name)
        };
        for name in stored.keys().filter(|name| !is_desired(name)) {
            remove(&services, name).await?;
            remove(&deployments, name).await?;
        }
        Ok(applied)
    }

    async fn forget(&self, service: &ServiceName) -> Result<Applied, ClusterError> {
        let (deployments, services) = self.apis(service);
        let applied = self.unroute(&services, service).await?;
        for name in of_service(&services, service).await?.keys() {
            remove(&services, name).await?;
        }
        for name in of_service(&deployments, service).await?.keys() {
            remove(&deployments, name).await?;
        }
        Ok(applied)
    }
}

impl Kubernetes {
    pub(crate) fn deployments(&self, namespace: &str) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn apis(&self, service: &ServiceName) -> (Api<Deployment>, Api<Service>) {
        let services = Api::namespaced(self.client.clone(), service.namespace());
        (self.deployments(service.namespace()), services)
    }

    /// The Services that the route of a service needs.
    ///
    /// # Errors
    /// [`ClusterError::Refused`] when one of them is another's.
    async fn aliases(
        &self,
        services: &Api<Service>,
        desired: &Desired,
    ) -> Result<Vec<Service>, ClusterError> {
        let Some(route) = desired.route() else {
            return Ok(Vec::new());
        };
        let aliases = aliases(desired.service(), route, &self.options)?;
        for alias in &aliases {
            if let Some(existing) = find(services, &alias.name_any()).await? {
                check_owner(&existing, desired.service(), None)?;
            }
        }
        Ok(aliases.into())
    }

    async fn route(
        &self,
        services: &Api<Service>,
        service: &ServiceName,
        aliases: &[Service],
    ) -> Result<Applied, ClusterError> {
        if aliases.is_empty() {
            return self.unroute(services, service).await;
        }
        let mut applied = ANY;
        for alias in aliases {
            let stored = put(services, alias, &alias.name_any(), CONTROLLER).await?;
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
        if check_owner(&existing, service, None).is_err() {
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

/// The Deployment of a workload, if it exists.
///
/// # Errors
/// [`ClusterError::Refused`] when it or its Service is another's, or it is another revision.
async fn check(
    deployments: &Api<Deployment>,
    services: &Api<Service>,
    workload: &Workload,
    stored: &BTreeMap<String, Deployment>,
) -> Result<Option<Deployment>, ClusterError> {
    let name = workload.revision.as_str();
    if let Some(stored) = stored.get(name) {
        check_owner(stored, &workload.revision, Some(workload))?;
        return Ok(Some(stored.clone()));
    }
    if let Some(existing) = find(services, name).await? {
        check_owner(&existing, &workload.revision, None)?;
    }
    let existing = find(deployments, name).await?;
    if let Some(existing) = &existing {
        check_owner(existing, &workload.revision, Some(workload))?;
    }
    Ok(existing)
}

async fn find<K>(api: &Api<K>, name: &str) -> Result<Option<K>, ClusterError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    api.get_opt(name).await.map_err(error::unavailable)
}

/// The objects of a service by name.
async fn of_service<K>(
    api: &Api<K>,
    service: &ServiceName,
) -> Result<BTreeMap<String, K>, ClusterError>
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let of_service = ListParams::default().labels(&selector(service));
    let objects = api.list(&of_service).await.map_err(error::unavailable)?;
    Ok(objects
        .into_iter()
        .map(|object| (object.name_any(), object))
        .collect())
}

/// Writes a Deployment. Its number of replicas is the autoscaler's from the first moment on: its manager creates it,
/// and lets go of all else once the controller holds that.
async fn put_deployment(
    deployments: &Api<Deployment>,
    workload: &Workload,
    deployment: &Deployment,
    existing: Option<Deployment>,
) -> Result<(), ClusterError> {
    let name = workload.revision.as_str();
    let replicas = match &existing {
        Some(existing) => existing.spec.as_ref().and_then(|spec| spec.replicas),
        None => Some(i32::try_from(workload.replicas).unwrap_or(i32::MAX)),
    };
    if existing.is_none() {
        let mut first = deployment.clone();
        first.spec.get_or_insert_default().replicas = replicas;
        put(deployments, &first, name, AUTOSCALER).await?;
    }
    put(deployments, deployment, name, CONTROLLER).await?;
    if existing.as_ref().is_none_or(is_half_made) {
        let only = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "spec": { "replicas": replicas },
        });
        put_value::<Deployment>(deployments, &only, name, AUTOSCALER).await?;
    }
    Ok(())
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

async fn put<K>(api: &Api<K>, object: &K, name: &str, manager: &str) -> Result<K, ClusterError>
where
    K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned + Serialize,
{
    let mut value = serde_json::to_value(object).map_err(|e| error::unwritable(&name, e))?;
    value["apiVersion"] = K::api_version(&()).into();
    value["kind"] = K::kind(&()).into();
    put_value(api, &value, name, manager).await
}

/// Writes what stands in the value, and no more; what somebody else changed of it is put back.
async fn put_value<K>(
    api: &Api<K>,
    value: &Value,
    name: &str,
    manager: &str,
) -> Result<K, ClusterError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    let params = PatchParams::apply(manager).force();
    let stored = api.patch(name, &params, &Patch::Apply(value)).await;
    stored.map_err(|error| error::of(&name, error))
}

/// Deletes an object, and in the background what it owns. One that is not there is no error.
async fn remove<K>(api: &Api<K>, name: &str) -> Result<(), ClusterError>
where
    K: Clone + std::fmt::Debug + DeserializeOwned,
{
    match api.delete(name, &DeleteParams::background()).await {
        Ok(_) => Ok(()),
        Err(error) if error::is_not_found(&error) => Ok(()),
        Err(error) => Err(error::unavailable(error)),
    }
}

//! Source of services that reads an API server.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;
use weir_cluster::{ClusterError, ServiceName};
use weir_cluster_kubernetes::{KnownServices, Kubernetes};
use weir_controller::{ControllerError, Declaration, Event, History, Platform, Propagation, Source, Stored};
use weir_crds::{InferenceService, InferenceServiceStatus, StorageContainer};

use crate::events::EventWriter;
use crate::history::Histories;
use crate::leftovers::removal;
use crate::object;
use crate::objects::Objects;
use crate::orphans::Orphans;
use crate::statuses::Statuses;
use crate::watching::{self, Published};

/// Field manager of statuses, and the name under which Events are written.
const CONTROLLER: &str = "weir-controller";

/// Services that an API server's objects declare. Clones share them; dropping the last clone ends the watches.
#[derive(Clone)]
pub struct KubernetesSource {
    client: Client,
    histories: Histories,
    events: EventWriter,
    declaration: watch::Receiver<Arc<Declaration>>,
    statuses: Arc<Mutex<Statuses>>,
    orphans: Arc<Mutex<Orphans>>,
    _watching: Arc<AbortOnDropHandle<()>>,
}

/// Lookup of declared objects in the latest declaration, with which `weir_cluster_kubernetes` saves requests to the
/// API server.
struct DeclaredServices(watch::Receiver<Arc<Declaration>>);

impl KnownServices for DeclaredServices {
    fn metadata(&self, service: &ServiceName) -> Option<ObjectMeta> {
        let declaration = self.0.borrow();
        let declared = declaration.services.get(service)?;
        Some(declared.service.metadata().clone())
    }

    fn storage_containers(&self) -> Vec<StorageContainer> {
        self.0.borrow().runtimes.storage_containers().to_vec()
    }
}

impl KubernetesSource {
    /// Watches the declared services; returns when everything that exists is known. Must be called within a tokio
    /// runtime. `process` identifies this writer of Events, such as the name of its pod.
    ///
    /// # Errors
    /// [`ClusterError::Unavailable`] when the watches have ended.
    pub async fn connect(
        client: Client,
        cluster: Kubernetes,
        platform: Platform,
        process: &str,
    ) -> Result<Self, ClusterError> {
        let (publish, mut declaration) = watch::channel(Arc::<Declaration>::default());
        let statuses = Arc::<Mutex<Statuses>>::default();
        let orphans = Arc::<Mutex<Orphans>>::default();
        let to = Published { declaration: publish, statuses: statuses.clone(), orphans: orphans.clone() };
        let namespace = cluster.options().watched.clone();
        let run = watching::run(client.clone(), namespace, Objects::new(platform), to);
        let watching = AbortOnDropHandle::new(tokio::spawn(run));
        let synced = declaration.changed().await;
        synced.map_err(|ended| unavailable(ended.into()))?;
        cluster.know_services(Arc::new(DeclaredServices(declaration.clone())));
        Ok(Self {
            events: EventWriter::new(client.clone(), CONTROLLER, process),
            client,
            histories: Histories::new(cluster),
            declaration,
            statuses,
            orphans,
            _watching: Arc::new(watching),
        })
    }

    /// Returns the untyped API of services. An object that the API server accepts may not fit the type, and needs a
    /// status too.
    fn services(&self, service: &ServiceName) -> Api<DynamicObject> {
        let kind = ApiResource::erase::<InferenceService>(&());
        Api::namespaced_with(self.client.clone(), service.namespace(), &kind)
    }

    /// Removes what an earlier controller left in a status. If that fails, the next write does it.
    async fn without_leftovers(
        &self,
        service: &ServiceName,
        stored: DynamicObject,
        status: &InferenceServiceStatus,
    ) -> DynamicObject {
        let Some(removal) = removal(&stored.data["status"], &json!(status)) else {
            return stored;
        };
        // The patch applies to this version only, so that no newer write of another controller is removed.
        let version = &stored.metadata.resource_version;
        let change = json!({"metadata": {"resourceVersion": version}, "status": removal});
        let (change, params) = (Patch::Merge(change), PatchParams::default());
        let services = self.services(service);
        let cleared = services.patch_status(service.name(), &params, &change);
        cleared.await.unwrap_or_else(|error| {
            tracing::debug!(%service, %error, "cannot remove leftovers of an older status; the next write retries");
            stored
        })
    }
}

#[async_trait]
impl Source for KubernetesSource {
    fn watch(&self) -> watch::Receiver<Arc<Declaration>> {
        self.declaration.clone()
    }

    async fn prepare(&self) -> Result<(), ControllerError> {
        let declared = self.declaration.borrow().clone();
        let services = declared.services.keys().cloned().collect();
        Ok(self.histories.prepare(services).await?)
    }

    async fn load(&self, service: &ServiceName) -> Result<Stored, ControllerError> {
        let status = self.statuses.lock().load(&service.whole());
        Ok(Stored { history: self.histories.load(service).await?, status: Arc::new(status) })
    }

    async fn store(&self, service: &ServiceName, history: &Arc<History>) -> Result<(), ControllerError> {
        Ok(self.histories.store(service, history).await?)
    }

    async fn publish_status(
        &self,
        service: &ServiceName,
        status: Arc<InferenceServiceStatus>,
    ) -> Result<(), ControllerError> {
        let whole = Patch::Apply(json!({
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": service.name()},
            "status": &*status,
        }));
        let params = PatchParams::apply(CONTROLLER).force();
        let services = self.services(service);
        let written = services.patch_status(service.name(), &params, &whole);
        match written.await {
            Ok(stored) => {
                let stored = self.without_leftovers(service, stored, &status).await;
                let written = object::status(&stored);
                self.statuses.lock().wrote(service, &written);
                Ok(())
            }
            // The service was deleted in between.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(unavailable(error.into()).into()),
        }
    }

    fn overwritten(&self) -> Arc<BTreeSet<ServiceName>> {
        self.statuses.lock().overwritten()
    }

    async fn publish_event(&self, service: &ServiceName, event: Event) -> Result<(), ControllerError> {
        let declaration = self.declaration.borrow().clone();
        let Some(declared) = declaration.services.get(service) else {
            return Ok(());
        };
        if let Err(error) = self.events.write(&declared.service, event).await {
            // A lost Event has no consequences: a namespace that is being deleted accepts none.
            tracing::debug!(%service, %error, "an event could not be written");
        }
        Ok(())
    }

    async fn propagation(&self, service: &ServiceName, uid: Option<&str>) -> Result<Propagation, ControllerError> {
        let is_orphaned = self.orphans.lock().contains(&service.whole(), uid)
            // This process has no record if another controller led when the service was deleted, or if none did, so the
            // stored history is checked for owner references.
            || self.histories.is_orphaned(service).await?;
        Ok(if is_orphaned {
            tracing::info!(%service, "deleted with --cascade=orphan: its objects stay and keep serving");
            Propagation::Orphan
        } else {
            Propagation::Background
        })
    }

    async fn forget(&self, service: &ServiceName) -> Result<(), ControllerError> {
        self.orphans.lock().forget(service);
        self.histories.forget(service);
        Ok(())
    }
}

fn unavailable(source: Box<dyn std::error::Error + Send + Sync>) -> ClusterError {
    ClusterError::Unavailable { what: "the Kubernetes API server".to_owned(), source }
}

impl std::fmt::Debug for KubernetesSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubernetesSource").finish_non_exhaustive()
    }
}

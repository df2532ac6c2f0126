//! Source of declared services, and destination of their statuses.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_crds::InferenceServiceStatus;

use crate::declaration::Declaration;
use crate::error::ControllerError;
use crate::event::Event;
use crate::history::History;

/// State of a service that the last controller stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// Revisions and rollout of the service; None for a new service.
    pub history: Option<Arc<History>>,
    /// Status of the service as it was published last.
    pub status: Arc<InferenceServiceStatus>,
}

/// Handling of a deleted service's objects, in Kubernetes' terms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// The objects are deleted too.
    #[default]
    Background,
    /// The objects stay and keep serving until a service of the same name adopts them.
    Orphan,
}

/// Source of declared services: files, or an API server.
#[async_trait]
pub trait Source: Send + Sync {
    /// Watches the declared services. A slow reader skips intermediate states.
    fn watch(&self) -> watch::Receiver<Arc<Declaration>>;

    /// Loads all states that [`Self::load`] will return, if loading them together is cheaper. It is called when a
    /// controller begins to lead.
    ///
    /// # Errors
    /// [`ControllerError::Cluster`] when the histories are unavailable now; then each is loaded by itself.
    async fn prepare(&self) -> Result<(), ControllerError> {
        Ok(())
    }

    /// Loads the stored state of a service, so that a new controller continues where the last one stopped.
    ///
    /// # Errors
    /// [`ControllerError::Cluster`] when the history is unavailable now.
    async fn load(&self, service: &ServiceName) -> Result<Stored, ControllerError>;

    /// Stores the history of a service.
    ///
    /// # Errors
    /// The same errors as [`Self::load`].
    async fn store(&self, service: &ServiceName, history: &Arc<History>) -> Result<(), ControllerError>;

    /// Writes the status of a service.
    ///
    /// # Errors
    /// The same errors as [`Self::load`].
    async fn publish_status(
        &self,
        service: &ServiceName,
        status: Arc<InferenceServiceStatus>,
    ) -> Result<(), ControllerError>;

    /// Returns the services whose status another writer has changed since it was published; it is published again.
    fn overwritten(&self) -> Arc<BTreeSet<ServiceName>> {
        Arc::default()
    }

    /// Records an event of a service.
    ///
    /// # Errors
    /// The same errors as [`Self::load`].
    async fn publish_event(&self, service: &ServiceName, event: Event) -> Result<(), ControllerError>;

    /// Returns how the objects of an undeclared service are handled. `uid` identifies the object that declared it, if
    /// this controller has served it.
    ///
    /// # Errors
    /// The same errors as [`Self::load`].
    async fn propagation(&self, _service: &ServiceName, _uid: Option<&str>) -> Result<Propagation, ControllerError> {
        Ok(Propagation::default())
    }

    /// Deletes history and status of a service that is no longer declared.
    ///
    /// # Errors
    /// The same errors as [`Self::load`].
    async fn forget(&self, service: &ServiceName) -> Result<(), ControllerError>;
}

//! Where services are declared, and where their status goes.

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

/// What the last controller left of a service.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stored {
    /// Revisions and rollout of the service; `None` for a service that is new.
    pub history: Option<Arc<History>>,
    /// Status of the service as it was published last.
    pub status: Arc<InferenceServiceStatus>,
}

/// Fate of the objects of a service that is deleted, in Kubernetes' words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted too.
    #[default]
    Background,
    /// They stay and serve on, until a service of the same name adopts them.
    Orphan,
}

/// A store of declared services: files, or an API server.
#[async_trait]
pub trait Source: Send + Sync {
    /// Watches the declared services. A slow reader skips intermediate states.
    fn watch(&self) -> watch::Receiver<Arc<Declaration>>;

    /// Loads together what [`Self::load`] will be asked for, where that is less work. A controller that begins to lead
    /// calls it.
    ///
    /// # Errors
    /// [`ControllerError::Cluster`] when the histories are unavailable now: each is loaded by itself then.
    async fn prepare(&self) -> Result<(), ControllerError> {
        Ok(())
    }

    /// Loads what is stored of a service, so that a new controller continues where the last one stopped.
    ///
    /// # Errors
    /// [`ControllerError::Cluster`] when the history is unavailable now.
    async fn load(&self, service: &ServiceName) -> Result<Stored, ControllerError>;

    /// Stores the history of a service.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn store(&self, service: &ServiceName, history: &Arc<History>) -> Result<(), ControllerError>;

    /// Writes the status of a service.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn publish_status(
        &self,
        service: &ServiceName,
        status: Arc<InferenceServiceStatus>,
    ) -> Result<(), ControllerError>;

    /// The services whose status somebody else changed since it was written: it is written again.
    fn overwritten(&self) -> Arc<BTreeSet<ServiceName>> {
        Arc::default()
    }

    /// Records an event of a service.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn publish_event(&self, service: &ServiceName, event: Event) -> Result<(), ControllerError>;

    /// Returns the fate of the objects of a service that is no longer declared. `uid` is the identity of the object that declared
    /// it, where this controller has served it.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn propagation(&self, _service: &ServiceName, _uid: Option<&str>) -> Result<Propagation, ControllerError> {
        Ok(Propagation::default())
    }

    /// Deletes history and status of a service that is no longer declared.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn forget(&self, service: &ServiceName) -> Result<(), ControllerError>;
}

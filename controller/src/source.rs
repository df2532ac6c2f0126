//! What is declared, and where what is known of it goes.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use weir_cluster::ServiceName;
use weir_crds::{InferenceService, InferenceServiceStatus, Spans};

use crate::{ControllerError, History, Platform, Runtimes, validate};

/// Where services are declared: files, or an API server.
#[async_trait]
pub trait Source: Send + Sync {
    /// What is declared now, and every change. States that nobody looked at in time are skipped.
    fn watch(&self) -> watch::Receiver<Arc<Declaration>>;

    /// What was remembered of a service, so that a new controller goes on where the last one ended.
    ///
    /// # Errors
    /// [`ControllerError::Cluster`] when it cannot be had now.
    async fn load(&self, service: &ServiceName) -> Result<Option<Arc<History>>, ControllerError>;

    /// Remembers it.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn store(
        &self,
        service: &ServiceName,
        history: &Arc<History>,
    ) -> Result<(), ControllerError>;

    /// Notes what is known of a service.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn publish_status(
        &self,
        service: &ServiceName,
        status: Arc<InferenceServiceStatus>,
    ) -> Result<(), ControllerError>;

    /// Tells people that something happened.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn publish_event(
        &self,
        service: &ServiceName,
        event: Event,
    ) -> Result<(), ControllerError>;

    /// Drops what was noted and remembered of a service that is declared no more.
    ///
    /// # Errors
    /// As [`Self::load`].
    async fn forget(&self, service: &ServiceName) -> Result<(), ControllerError>;
}

/// All that is declared, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Declaration {
    /// The services.
    pub services: BTreeMap<ServiceName, Arc<Service>>,
    /// What they may run on.
    pub runtimes: Arc<Runtimes>,
    /// What is wrong with what was read last, a sentence each: for it, the last good state stands.
    pub problems: Vec<String>,
    /// Objects of other kinds that nobody here looks at, as `KIND NAME`.
    pub ignored_objects: Vec<String>,
}

/// A service as it was declared.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Which.
    pub name: ServiceName,
    /// The object, as written: no default is filled in.
    pub object: Arc<InferenceService>,
    /// Where its fields are written, if they are in a file.
    pub spans: Option<Spans>,
    /// The directory in which claims lie by their names, without Kubernetes.
    pub claims: Option<PathBuf>,
}

/// Something that happened to a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Whether somebody should look.
    pub kind: EventKind,
    /// What it is about.
    pub subject: Subject,
    /// One CamelCase word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// Whether somebody should look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// All is as it should be.
    Normal,
    /// Something is wrong.
    Warning,
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The service as it was declared, or as a whole.
    Service,
    /// A revision's replicas, as whoever follows the cluster sees them too.
    Replicas,
}

impl Declaration {
    /// All that is wrong with the services, a sentence each, with its position; before anything runs.
    #[must_use]
    pub fn faults(&self, platform: &Platform) -> Vec<String> {
        let each = self.services.values().flat_map(|service| {
            let faults = validate(service, &self.runtimes, platform).err();
            let faults = faults.into_iter().flat_map(|faults| faults.list);
            faults.map(|fault| service.located(&fault.field, &fault.because))
        });
        each.collect()
    }
}

impl Service {
    /// A sentence about a field, as `FILE:LINE:COLUMN: FIELD: SENTENCE` where the field's position is
    /// known.
    #[must_use]
    pub fn located(&self, field: &str, sentence: &str) -> String {
        let position = self.spans.as_ref().and_then(|spans| {
            let position = spans.of_field(field)?;
            Some(format!(
                "{}:{}:{}: ",
                spans.file(),
                position.line,
                position.column
            ))
        });
        format!("{}{field}: {sentence}", position.unwrap_or_default())
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.reason, self.message)
    }
}
